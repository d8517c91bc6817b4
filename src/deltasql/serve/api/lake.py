"""The lake over HTTP: mirror, audit, transactions, sessions."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Query

from deltasql.lake.history import HistoryEntry
from deltasql.log.timestamps import to_ms
from deltasql.serve.access import LakeReader, Reader, Served
from deltasql.serve.api.answers import AuditItem, AuditPage
from deltasql.serve.api.tables import Moment
from deltasql.serve.problems import Refused
from deltasql.serve.service import Service
from deltasql.serve.tokens import Visitor
from deltasql.serve.watching import behind, lag_seconds
from deltasql.store.interface import VersionRecord

router = APIRouter(prefix="/api/v1", tags=["lake"])

_HOUR: Final = 3_600_000
_DAY: Final = 24 * _HOUR
# The first of these that contains enough is used: a busy lake need not search its past.
_WINDOWS: Final = (_HOUR, _DAY, 30 * _DAY)
_MOST: Final = 1_000
# A transaction's versions are committed together, give or take clocks that went back.
_AROUND: Final = _DAY
_RECENT: Final = 30 * _DAY

# A version's place among those of all tables: its time, and the id of its table.
Place = Annotated[str, Query(max_length=34, pattern="^[0-9]{1,15}-[0-9]{1,18}$")]


@router.get("/mirror")
def mirror(service: Served, visitor: Reader) -> dict[str, Any]:
    """The lake in numbers, and the tables whose mirror is behind."""
    late, now = behind(service, visitor), service.lake.store.clock_ms()
    answer: dict[str, Any] = {
        "behind": [
            {
                "table": item.name,
                "versions": item.versions,
                "seconds": lag_seconds(item, now),
                "is_failed": item.is_failed,
                "is_paused": item.is_paused,
                "error_message": item.error_message,
            }
            for item in late
        ]
    }
    if visitor.schemas is None:
        summary = service.lake.store.summary()
        answer |= {key: value for key, value in asdict(summary).items() if key != "last_ict"}
    return answer


@router.get("/audit")
def audit(
    service: Served,
    visitor: Reader,
    start: Annotated[Moment | None, Query(alias="from")] = None,
    end: Annotated[Moment | None, Query(alias="to")] = None,
    after: Place | None = None,
    limit: Annotated[int, Query(ge=1, le=_MOST)] = 100,
) -> AuditPage:
    """Who committed what, over all tables, newest first."""
    found = audit_page(
        service,
        visitor,
        start=None if start is None else to_ms(_aware(start)),
        stop=None if end is None else to_ms(_aware(end)),
        after=after,
        most=limit + 1,
    )
    page = found[:limit]
    entries = [AuditItem(name, HistoryEntry.of(record)) for name, record in page]
    return AuditPage(entries, place_of(page[-1][1]) if len(found) > limit else None)


def _aware(moment: datetime) -> datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def audit_page(
    service: Service,
    visitor: Visitor,
    *,
    start: int | None = None,
    stop: int | None = None,
    after: str | None = None,
    most: int = 100,
) -> list[tuple[str, VersionRecord]]:
    """The newest versions in a span of time that the visitor may see, after a place among them."""
    store = service.lake.store
    # In-commit timestamps may be ahead of the clock.
    ahead = _DAY if stop is None and after is None else 0
    until, below = (store.clock_ms() + ahead if stop is None else stop), 0
    if after is not None:
        place, _, table = after.partition("-")
        if stop is None or int(place) < stop:
            until, below = int(place), int(table)
    found: list[tuple[str, VersionRecord]] = []
    earliest = max(0, start or 0)
    for window in (*_WINDOWS, until):
        begin = max(earliest, until - window - ahead)
        listed = store.browse_audit(
            start=begin, stop=until, below=below, schemas=visitor.schemas, most=most
        )
        found = [(name, record) for name, record in listed if visitor.sees(name)]
        if len(found) >= most or begin == earliest:
            break
    return found


def place_of(record: VersionRecord) -> str:
    """Where a version stands among those of all tables: several may have the same time."""
    return f"{record.in_commit_timestamp}-{record.table_id}"


@router.get("/transactions/{transaction_id}")
def transaction(
    service: Served,
    visitor: Reader,
    transaction_id: Annotated[str, Path(max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")],
    at: Moment | None = None,
) -> list[AuditItem]:
    """The versions that one transaction made, of the last 30 days, or around the time `at`."""
    found = transaction_versions(
        service, visitor, transaction_id, at=None if at is None else to_ms(_aware(at))
    )
    return [AuditItem(name, HistoryEntry.of(record)) for name, record in found]


def transaction_versions(
    service: Service, visitor: Visitor, transaction_id: str, *, at: int | None = None
) -> list[tuple[str, VersionRecord]]:
    """The versions of a transaction that the visitor may see; `Refused` if there are none."""
    store = service.lake.store
    now = store.clock_ms()
    start, stop = (now - _RECENT, now + _DAY) if at is None else (at - _AROUND, at + _AROUND)
    found = store.browse_transaction(
        transaction_id, start=max(0, start), stop=stop, schemas=visitor.schemas
    )
    seen = [(name, record) for name, record in found if visitor.sees(name)]
    if not seen:
        raise Refused(
            404,
            "there is no such transaction",
            cause="none of that id was committed in the last 30 days, or around the given time",
            remedy="give the time of one of its versions as `at`",
        )
    return seen


@router.get("/sessions")
def sessions(service: Served, visitor: LakeReader) -> list[dict[str, Any]]:
    """The processes that write to the lake, and the versions they hold."""
    del visitor
    return [asdict(item) for item in service.lake.sessions()]
