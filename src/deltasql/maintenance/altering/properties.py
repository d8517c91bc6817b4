"""The metadata of a table whose properties are set, and the protocol that they need."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from deltasql.log.row_tracking import ROW_TRACKING_COLUMNS
from deltasql.log.state import TableState
from deltasql.log.validation.properties import check_asked
from deltasql.maintenance.altering import rules
from deltasql.maintenance.altering.types import with_mapping
from deltasql.spec.actions import Action, Metadata
from deltasql.spec.features import stored_properties
from deltasql.spec.properties import COLUMN_MAPPING_MODE, FENCE, ROW_TRACKING, canonical, is_true
from deltasql.spec.protocol import upgraded
from deltasql.spec.schema import parse_schema


def with_properties(
    state: TableState,
    metadata: Metadata,
    properties: Mapping[str, str],
    *,
    new_id: Callable[[], str],
) -> tuple[Metadata, list[Action]]:
    """The metadata with properties set, and the actions that turn the table's own into it.

    `metadata` is the table's, or what the same commit makes of it.
    """
    rules.must_be_plain(properties)
    wanted = canonical(properties)
    rules.must_be_plain(wanted)
    check_asked(wanted)
    if FENCE in wanted:
        rules.fence_must_stay(state, wanted)
    configuration = {**metadata.configuration, **wanted}
    if is_true(configuration, ROW_TRACKING):
        for key, start in ROW_TRACKING_COLUMNS.items():
            configuration.setdefault(key, f"{start}-{new_id()}")
    schema = parse_schema(metadata.schema_string)
    mode = configuration.get(COLUMN_MAPPING_MODE)
    if state.column_mapping == "none" and mode in ("name", "id"):
        metadata, configuration = with_mapping(metadata, schema, configuration)
    # What is stored lacks the properties that only ask for a feature.
    needed = upgraded(state.protocol, parse_schema(metadata.schema_string), configuration)
    after = replace(metadata, configuration=stored_properties(configuration))
    actions: list[Action] = [] if after == state.metadata else [after]
    return after, [*actions, *([] if needed is None else [needed])]
