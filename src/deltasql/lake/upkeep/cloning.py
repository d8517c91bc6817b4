"""Shallow clones: a table of its own whose files are those of another, by absolute paths.

What the clone writes goes to its own place. Vacuum and purge of the source spare what a clone in
the same lake names: a pin holds the files until the clone exists, and the clone is created under a
lock of its source, so that whoever deletes sees either the pin or the clone.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from deltasql.errors import TableExistsError, ValidationError
from deltasql.lake import locations
from deltasql.lake.writing import new_id, now_ms
from deltasql.log.row_tracking import ROW_TRACKING_COLUMNS
from deltasql.maintenance.existing import must_exist
from deltasql.maintenance.vacuuming.keys import vector_file
from deltasql.places import same_scheme, uri_of
from deltasql.spec.actions import Action, AddFile, DeletionVector, DomainMetadata
from deltasql.spec.features import FEATURES, features_of
from deltasql.spec.features import FENCE as FENCE_FEATURE
from deltasql.spec.paths import is_elsewhere, location_uri
from deltasql.spec.properties import (
    CLUSTERING_DOMAIN,
    FENCE,
    TIMESTAMPS,
    TIMESTAMPS_SINCE,
    TIMESTAMPS_SINCE_TIME,
)
from deltasql.spec.protocol import implied_features, protocol_for, upgraded

if TYPE_CHECKING:
    from deltasql.lake.snapshot import Snapshot
    from deltasql.lake.table import Table

_SINCE = (TIMESTAMPS_SINCE, TIMESTAMPS_SINCE_TIME)


def clone(
    table: Table, snapshot: Snapshot, name: str, location: str | os.PathLike[str] | None
) -> Table:
    """See `Table.clone`."""
    lake = table._lake
    place = lake.place(name) if location is None else locations.check_new(lake, location)
    if not same_scheme(place, table.location):
        raise ValidationError(
            f"{table.name} can't be cloned to {place}",
            cause=f"its files are at {table.location}; a table can't read files in "
            "another kind of store than its own",
            remedy="choose a location in the same kind of store, or copy the rows",
        )
    with lake.presence.pinned(table.table_id, snapshot.version, f"clone to {name}") as pin_id:
        root = location_uri(table.objects.location)
        files = list(snapshot.adds())
        what = f"{table.name} can't be cloned at version {snapshot.version}"
        must_exist(lake.store, table.objects, table.table_id, files, what=what)
        made = lake.create_with(
            name,
            place,
            _actions(snapshot, [_absolute(add, root) for add in files]),
            operation="CLONE",
            operation_params={
                "source": table.name,
                "sourceVersion": snapshot.version,
                "isShallow": True,
            },
            sources={table.table_id: pin_id},
        )
    if made is None:
        raise TableExistsError(
            f"there is already a table {name}", remedy="choose another name, or drop it"
        )
    return made


def _actions(snapshot: Snapshot, files: list[AddFile]) -> list[Action]:
    state = snapshot.state
    configuration = {key: value for key, value in state.properties.items() if key not in _SINCE} | {
        TIMESTAMPS: "true"
    }
    # The protocol decides: setting the property later, as was once possible, removed no fence.
    is_fenced = FENCE_FEATURE in implied_features(state.protocol)[1]
    fence = is_fenced or configuration.get(FENCE, "true").lower() != "false"
    protocol = protocol_for(state.schema, configuration, fence=fence)
    features = {
        feature
        for feature in implied_features(state.protocol)[1] | features_of(files)
        if feature != FENCE_FEATURE and feature in FEATURES and FEATURES[feature].commit
    }
    more = upgraded(protocol, state.schema, configuration, also=features)
    # Under the source's names the ids of its moved rows would be read from its files, and be those
    # of other rows of the clone.
    for key, start in ROW_TRACKING_COLUMNS.items():
        if key in configuration:
            configuration[key] = f"{start}-{new_id()}"
    metadata = replace(
        state.metadata, id=new_id(), configuration=configuration, created_time=now_ms()
    )
    clustering = snapshot.domains.get(CLUSTERING_DOMAIN)
    domains = (
        []
        if clustering is None
        else [DomainMetadata(domain=CLUSTERING_DOMAIN, configuration=clustering)]
    )
    return [more or protocol, metadata, *domains, *files]


def _absolute(add: AddFile, root: str) -> AddFile:
    """The file as another table names it; its rows get ids of the clone's own."""
    return replace(
        add,
        path=_named(add.path, root),
        deletion_vector=_absolute_vector(add.deletion_vector, root),
        data_change=True,
        base_row_id=None,
        default_row_commit_version=None,
    )


def _absolute_vector(vector: DeletionVector | None, root: str) -> DeletionVector | None:
    path = None if vector is None else vector_file(vector)
    if vector is None or path is None:
        return vector
    return replace(vector, storage_type="p", path_or_inline_dv=_named(path, root))


def _named(path: str, root: str) -> str:
    return uri_of(path, root) if is_elsewhere(path) else f"{root}/{path}"
