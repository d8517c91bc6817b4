"""Reads of a released table: allowed while SQL knows its newest version, and refused after."""

from __future__ import annotations

from deltasql.adoption.fencing import is_fenced
from deltasql.delta_log.names import LOG, LogKind, commit_name, parse_name
from deltasql.errors import TableError
from deltasql.log.state import TableState
from deltasql.mirror.engine import Target
from deltasql.mirror.released import is_released
from deltasql.objectstore import ObjectStore
from deltasql.store.interface import LogStore


def must_be_current(
    log: LogStore,
    objects: ObjectStore,
    target: Target,
    state: TableState,
    *,
    at_ms: int | None = None,
) -> None:
    """Raise `TableError` if the table was released and others have committed since.

    With `at_ms`, only if they did so by that time. Versions in SQL never change, so one may always
    be read by its number.
    """
    # Release lowers the fence: other tables need no further check.
    if is_fenced(state) or not is_released(log.read_only_reason(target.table_id)):
        return
    if not _has_gone_on(objects, state.version, at_ms):
        return
    raise TableError(
        f"{target.name} can't be read here: it was released, and others have written to it since",
        cause=f"SQL does not follow their commits and ends at version {state.version}",
        remedy=f"read {target.location} with any Delta reader, adopt it again, or ask for "
        f"version {state.version} or an older one",
        version=state.version,
    )


def _has_gone_on(objects: ObjectStore, version: int, at_ms: int | None) -> bool:
    last = LOG + commit_name(version)
    for item in objects.list(LOG.rstrip("/"), start_after=last):
        name = parse_name(item.path.removeprefix(LOG))
        if name is None or name.version is None or name.version <= version:
            continue
        # The next commit says when others went on; without it, nobody knows.
        is_next = name.kind is LogKind.COMMIT and name.version == version + 1
        return not (is_next and at_ms is not None and item.modified > at_ms)
    return False
