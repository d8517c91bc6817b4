"""New tables: version 0 with the name, protocol and metadata, and its commit."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from deltasql.commit import CommitRequest
from deltasql.commit.commit_logging import after_commit
from deltasql.data.arrow_schema import ArrowSchema, check_names, from_arrow, from_deltalake
from deltasql.data.arrow_schema import schema_of as arrow_schema_of
from deltasql.data.computing.completing import completed
from deltasql.data.gathering import gathered
from deltasql.data.writing.properties import FileOptions
from deltasql.data.writing.writer import PLAIN, NewFile
from deltasql.errors import CommitStateUnknownError, DeltaSqlError, ValidationError
from deltasql.lake import writing
from deltasql.lake.table import Table
from deltasql.lake.upkeep.sources import absolute_paths, outside
from deltasql.log.row_tracking import ROW_TRACKING_COLUMNS, assign_row_ids
from deltasql.log.validation.commits import validate_commit
from deltasql.log.validation.identity import check_identity
from deltasql.log.validation.properties import check_asked
from deltasql.maintenance.altering.ddl import parse_columns
from deltasql.places import place_of
from deltasql.spec.actions import Action, AddFile, Metadata, Protocol
from deltasql.spec.column_mapping import assign_column_mapping
from deltasql.spec.features import canonical_metadata, stored_properties
from deltasql.spec.paths import is_elsewhere
from deltasql.spec.properties import (
    COLUMN_MAPPING_MODE,
    FENCE,
    MAX_COLUMN_ID,
    ROW_TRACKING,
    TIMESTAMPS,
    canonical,
    is_true,
)
from deltasql.spec.protocol import protocol_for
from deltasql.spec.schema import StructType, render_schema
from deltasql.store.claims import Sources
from deltasql.store.interface import TableRecord

if TYPE_CHECKING:
    from deltasql.lake.catalog import Lake

Rows: TypeAlias = pa.Table | pa.RecordBatchReader
# Lone surrogates stand for bytes that are not text: no database accepts them.
_NAME = re.compile(r"[^\x00-\x1f\x7f/\\\ud800-\udfff]+")
_LONGEST_NAME = 255


def check_name(name: str) -> None:
    """Raise `ValidationError` unless a table may have that name."""
    if not _is_name(name):
        raise ValidationError(
            f"{name!r:.80} is not a table's name",
            cause="a name is words separated by dots, without slashes, control characters or "
            f"blanks around them, of at most {_LONGEST_NAME} bytes",
            remedy="choose another, such as sales.orders",
        )


def _is_name(name: object) -> bool:
    if not isinstance(name, str):
        return False
    legal = all(_NAME.fullmatch(part) and part.strip() == part for part in name.split("."))
    return legal and len(name.encode()) <= _LONGEST_NAME


def version_zero(
    schema: pa.Schema | StructType,
    partition_by: tuple[str, ...],
    properties: Mapping[str, str] | None,
    description: str | None = None,
) -> list[Action]:
    """The protocol and the metadata of a new table."""
    _must_be_texts(properties or {})
    configuration = {TIMESTAMPS: "true", **canonical(properties or {})}
    check_asked(configuration)
    if configuration[TIMESTAMPS].lower() == "false":
        raise ValidationError(
            "a table can't be created without in-commit timestamps",
            cause="a mirror that is late would change the times of its versions",
            remedy=f"leave {TIMESTAMPS} out",
        )
    mapped = configuration.get(COLUMN_MAPPING_MODE, "none").lower() in ("name", "id")
    delta = _delta_schema(schema, mapped=mapped)
    # Before rows are written: the commit would check this as well, but only afterwards.
    check_identity(delta)
    if mapped:
        delta, highest = assign_column_mapping(delta, highest=0, new_id=writing.new_id)
        configuration[MAX_COLUMN_ID] = str(highest)
    if is_true(configuration, ROW_TRACKING):
        # Moved rows keep their ids in hidden columns, which the spec requires to be named.
        for key, start in ROW_TRACKING_COLUMNS.items():
            configuration.setdefault(key, f"{start}-{writing.new_id()}")
    fence = configuration.get(FENCE, "true").lower() != "false"
    return [
        protocol_for(delta, configuration, fence=fence),
        Metadata(
            id=writing.new_id(),
            schema_string=render_schema(delta),
            partition_columns=partition_by,
            configuration=stored_properties(configuration),
            created_time=writing.now_ms(),
            description=description,
        ),
    ]


def _delta_schema(schema: pa.Schema | StructType, *, mapped: bool) -> StructType:
    if not isinstance(schema, StructType):
        return from_arrow(schema, column_mapping=mapped)
    check_names((item.name for item in schema.fields), column_mapping=mapped)
    return schema


def rows_of(data: Any) -> Rows | None:
    """The rows of a new table; a long stream stays one, which can be read only once."""
    return None if data is None else gathered(data, StructType(()))


def schema_of(schema: ArrowSchema | StructType | str | None, rows: Rows | None) -> Any:
    """The schema of a new table: as given, perhaps as text, else that of its rows."""
    if isinstance(schema, str):
        return parse_columns(schema)
    if isinstance(schema, ArrowSchema):
        return from_deltalake(schema) or arrow_schema_of(schema)
    if schema is None and rows is None:
        raise ValidationError(
            "a new table needs a schema", remedy="pass schema=, or data= that has one"
        )
    return rows.schema if schema is None and rows is not None else schema


def create_filled(
    lake: Lake,
    name: str,
    place: str,
    actions: list[Action],
    rows: Rows | None,
    params: Mapping[str, Any],
    *,
    options: FileOptions = PLAIN,
    commit_metadata: Mapping[str, Any] | None = None,
) -> Table | None:
    """Create a table at a place with its first rows, if there are any."""
    if rows is None:
        told = writing.commit_info({}, commit_metadata)
        return lake.create_with(
            name, place, [*actions, *told], operation="CREATE TABLE", operation_params=params
        )
    (metadata,) = (action for action in actions if isinstance(action, Metadata))
    limit = lake.settings.duckdb_memory_limit
    with lake.presence.writing(), completed(metadata, rows, memory_limit=limit) as found:
        files = writing.write_fitted(
            lake.objects(place), metadata, found.rows, partial(_abandon, lake, place), options
        )
        actions = writing.numbered(metadata, found.metadata(metadata), actions)
        told = writing.commit_info(
            writing.written(files, writing.rows_in(rows, files)), commit_metadata
        )
        return lake.create_with(
            name,
            place,
            [*actions, *files, *told],
            operation="CREATE TABLE AS SELECT",
            operation_params=params,
            files=files,
        )


def _abandon(lake: Lake, place: str, paths: Sequence[str]) -> None:
    lake.discarder.discard(place, paths, after=-1)


def _must_be_texts(properties: Mapping[str, str]) -> None:
    for key, value in properties.items():
        if type(key) is not str or type(value) is not str:
            raise ValidationError(
                f"the property {key!r:.80} is {value!r:.80}",
                cause="the keys and values of properties are strings",
                remedy='write it as a string, such as "true" or "10"',
            )


def _sources(lake: Lake, actions: Sequence[Action]) -> Sources:
    """The live tables at whose places files of the actions lie, as with Spark's clones."""
    found: dict[str, int] = {}
    seen: set[str] = set()
    for action in actions:
        if not isinstance(action, AddFile) or not is_elsewhere(action.path):
            continue
        folder = action.path.rpartition("/")[0]
        if folder in seen:
            continue
        seen.add(folder)
        place = place_of(folder)
        if not place.startswith(tuple(found)):
            found |= {
                claim.place: claim.table_id
                for claim in lake.store.claims(folder)
                if claim.status == "live" and place.startswith(claim.place)
            }
    return dict.fromkeys(found.values())


def _strange(
    lake: Lake, actions: Sequence[Action], location: str, sources: Sources
) -> Sequence[str]:
    """The folders of files at no table's place, as when Spark cloned a table that is not ours."""
    if not absolute_paths(actions):
        return ()
    known = [source for table_id in sources for source in lake.store.sources_of(table_id)]
    places = [place_of(item.location) for item in lake.store.tables() if item.table_id in sources]
    return outside(actions, location, [*known, *places])


def create(
    lake: Lake,
    name: str,
    location: str,
    actions: list[Action],
    *,
    files: Sequence[NewFile] = (),
    sources: Sources | None = None,
    commit_id: str | None = None,
    **details: Any,
) -> Table | None:
    """Create a table; see `Lake.create_with`."""
    actions = list(canonical_metadata(actions))
    request = CommitRequest(
        table_id=0,
        table_name=name,
        actions=actions,
        commit_id=commit_id or writing.new_commit_id(),
        committer=lake.committer,
        engine=lake.engine_info,
        **details,
    )
    paths = [file.path for file in files]
    try:
        validate_commit(actions, None)
        protocols = [action for action in actions if isinstance(action, Protocol)]
        if any("rowTracking" in (item.writer_features or ()) for item in protocols):
            request.actions = assign_row_ids(actions, version=0, domains={})
        request.sources = _sources(lake, actions) if sources is None else sources
        strange = _strange(lake, actions, location, request.sources)
        created = lake.commits.create(request, location)
    except CommitStateUnknownError:
        # The files may belong to a table, so they stay.
        raise
    except DeltaSqlError:
        lake.discarder.discard(location, paths, after=-1, request=request)
        raise
    if created is None:
        lake.discarder.discard(location, paths, after=-1, request=request)
        return None
    if strange:
        # Without them its files can't be read, which says how to allow them.
        with after_commit("naming its sources", name):
            folders = [place_of(item + "/") for item in strange]
            lake.store.allow_sources(created, folders, instead=False)
    # Don't look it up again: it may have been renamed by now, and is ours all the same.
    table = Table(lake, TableRecord(created, name, location))
    with after_commit("mirroring", name):
        lake.engine.after_commit([(table.target, 0)])
    return table


def replace_contents(
    table: Table,
    rows: Any,
    partition_by: Sequence[str],
    properties: Mapping[str, str] | None,
    *,
    options: FileOptions = PLAIN,
    commit_metadata: Mapping[str, Any] | None = None,
) -> Table:
    """Give a table other rows, columns, partitions and properties, in one commit."""
    snapshot = table.base()
    write = writing.overwrite(
        table.objects,
        snapshot,
        rows,
        schema_mode="overwrite",
        partition_by=partition_by,
        properties=properties,
        memory_limit=table.memory_limit,
        options=options,
        abandon=table.abandon(snapshot.version),
    )
    table.commit_write(write, metadata=commit_metadata)
    return table
