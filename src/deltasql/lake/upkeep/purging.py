"""Purging: deletes a dropped table's own files, then its rows; nothing else at its place.

The start of the purge is recorded first, and the rows, which say what is to be deleted, go last: a
purge that was killed in between only has to be run again.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from deltasql.delta_log.listing import newest_after
from deltasql.delta_log.names import LOG
from deltasql.errors import (
    DatabaseError,
    MirrorError,
    TableNotFoundError,
    ValidationError,
)
from deltasql.log.timestamps import from_ms
from deltasql.maintenance.vacuuming.elsewhere import Elsewhere
from deltasql.maintenance.vacuuming.keys import Place
from deltasql.mirror.engine import Target
from deltasql.mirror.leases import held_leases
from deltasql.mirror.purging import PurgeReport, PurgeRun, newest_version
from deltasql.places import LOCAL, place_of
from deltasql.store.interface import TableRecord
from deltasql.store.upkeep.naming import NamingQueries

if TYPE_CHECKING:
    from deltasql.lake.catalog import Lake
    from deltasql.lake.table import Table
    from deltasql.store.claims import Ask, Check, DroppedRecord, PurgeRecord
    from deltasql.store.interface import LogStore

logger = logging.getLogger("deltasql.purge")

__all__ = [
    "DroppedTable",
    "PurgeReport",
    "drop_and_purge",
    "dropped",
    "must_be_allowed",
    "must_not_be_ahead",
    "purge",
    "undrop",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class DroppedTable:
    """A table that was dropped and not purged: its rows, its files and its place are still held.

    `is_purging` says that a purge has begun, and was cut off or is under way.
    """

    table_id: int
    name: str
    location: str
    dropped_at: datetime
    is_purging: bool

    @property
    def kind(self) -> str:
        """`dropped`: like `Table.kind` of tables in the lake."""
        return "dropped"


def dropped(lake: Lake) -> list[DroppedTable]:
    """See `Lake.dropped`."""
    return [
        DroppedTable(
            table_id=record.table_id,
            name=record.name,
            location=record.location,
            dropped_at=from_ms(record.dropped_at),
            is_purging=record.is_purging,
        )
        for record in lake.store.dropped_tables()
    ]


def must_be_allowed(store: LogStore) -> None:
    """Raise `DatabaseError` if the database would not let us delete the rows at the end."""
    if not store.may_purge():
        raise DatabaseError(
            "permission denied: this role can't purge tables",
            cause="it may not delete the rows of the log; nothing was dropped or deleted",
            remedy="purge as the owner of the log's tables, or drop without purging",
        )


def must_not_be_ahead(lake: Lake, table_id: int, name: str, location: str) -> None:
    """Raise `MirrorError` if the log has versions that SQL does not know.

    Checked before anything is recorded: the table can still be repaired, or adopted again.
    """
    own = [claim for claim in lake.store.claims(location) if claim.place == place_of(location)]
    if [claim.table_id for claim in own] != [table_id]:
        return  # what is there now is not this table, and stays
    newest = newest_version(lake.store, table_id)
    found = newest_after(lake.objects(location), newest)
    if found is not None:
        raise MirrorError(
            f"{name} is not purged: its log has versions that SQL does not know",
            cause=f"SQL ends at version {newest}, and {LOG}{found.name} exists: somebody else "
            "writes the table, or the database was restored to an earlier time",
            remedy="take them back with mirror.repair(take_back=True), or adopt the dropped table; "
            "or delete the foreign versions, then purge",
        )


def purge(lake: Lake, table: str | int) -> PurgeReport:
    """See `Lake.purge`."""
    store = lake.store
    must_be_allowed(store)
    record = _find(store, table)
    if record.read_only_reason is None and not record.is_purging:
        must_not_be_ahead(lake, record.table_id, record.name, record.location)
    begun = store.begin_purge(record.table_id, check=_nobody_needs(lake, record))
    if begun is None:
        raise _gone(table)
    return _carry_out(lake, begun)


def undrop(lake: Lake, table: str | int, new_name: str | None) -> TableRecord:
    """See `Lake.undrop`."""
    record = _find(lake.store, table)
    name = new_name or record.name
    if record.is_purging:
        raise ValidationError(
            f"{record.name} can't be brought back",
            cause="its purge has begun, and files of it may be gone",
            remedy=f"finish the purge: lake.purge({record.table_id})",
        )
    if not lake.store.undrop_table(record.table_id, name):
        raise _gone(table)
    lake.states.forget(record.table_id)
    logger.info("undropped", extra={"table": name})
    # Don't look it up again: it is back, whatever fails now.
    return TableRecord(record.table_id, name, record.location)


def drop_and_purge(lake: Lake, table: Table) -> PurgeReport:
    """See `Lake.drop_table`: drops the table if its purge may begin, in one transaction."""
    if table.read_only is None:
        must_not_be_ahead(lake, table.table_id, table.name, table.location)
    check = _nobody_needs(lake, table)
    begun = lake.store.begin_purge(table.table_id, drop=True, check=check)
    if begun is None:
        raise TableNotFoundError.named(
            table.name, cause="it was dropped or renamed in the meantime"
        )
    return _carry_out(lake, begun)


def _carry_out(lake: Lake, begun: PurgeRecord) -> PurgeReport:
    record = begun.table
    if begun.keeps_files is not None:
        report = PurgeReport(
            table=record.name,
            table_id=record.table_id,
            location=record.location,
            kept_because=begun.keeps_files,
        )
    else:
        report = _delete_files(lake, record)
    lake.store.purge_table(record.table_id)
    facts = {"table": record.name, "files": report.files, "kept": report.kept_count}
    logger.info("purged", extra=facts)
    return report


def _nobody_needs(lake: Lake, table: DroppedRecord | Table) -> Check:
    """A check that raises `ValidationError` if another table, such as a shallow clone, needs the
    files, or if somebody reads them; its slow part is done now, the rest when it is called.
    """
    place = Place(table.location, is_local=place_of(table.location).startswith(LOCAL))
    elsewhere = Elsewhere(place, but=table.table_id)
    elsewhere.look(lake.store)

    def check(ask: Ask) -> None:
        log = NamingQueries(ask)
        elsewhere.read_on(log)
        needed = elsewhere.keys
        if needed:
            raise ValidationError(
                f"{table.name} is not purged: other tables name {len(needed)} of its files",
                cause=f"shallow clones read {min(needed)} where it is",
                remedy="drop and purge the clones first, or drop the table without purging it",
            )
        held = log.holders(table.table_id)
        if held:
            version, reason = held[0]
            raise ValidationError(
                f"{table.name} is not purged: its version {version} is held",
                cause=f"somebody reads it ({reason}); lake.pins() shows who holds what",
                remedy="wait until it is released; the pin of a holder that died expires",
            )

    return check


def _delete_files(lake: Lake, record: DroppedRecord) -> PurgeReport:
    target = Target(record.table_id, record.name, record.location)
    objects = lake.objects(record.location)
    # No publish run may be under way: it would write log files again.
    with held_leases(lake.engine, lake.store, target) as leases:
        if lake.store.begin_purge(record.table_id) is None:
            # Somebody else finished the purge while we waited; only our leases are left.
            lake.store.purge_table(record.table_id)
            raise _gone(record.name)
        return PurgeRun(lake.store, objects, record, leases).run()


def _find(store: LogStore, table: str | int) -> DroppedRecord:
    found = [record for record in store.dropped_tables() if table in (record.table_id, record.name)]
    if not found:
        raise _gone(table)
    if len(found) > 1:
        ids = ", ".join(str(record.table_id) for record in found)
        raise ValidationError(
            f"{len(found)} dropped tables had the name {table}",
            cause=f"their ids are {ids}",
            remedy="name one of them by its id; lake.dropped() shows which is which",
        )
    return found[0]


def _gone(table: str | int) -> TableNotFoundError:
    return TableNotFoundError(
        f"there is no dropped table {table}",
        cause="it was never dropped, or it has already been purged",
        remedy="see lake.dropped()",
    )
