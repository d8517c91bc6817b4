"""A table's place, checked as far as SQL alone can tell.

On a local disk a place depends on links, which other hosts may not have: there it is compared with
other tables' places, not with the location.
"""

from __future__ import annotations

from deltasql.integrity.findings import Kind, TableCheck
from deltasql.mirror.engine import Target
from deltasql.places import LOCAL, place_of
from deltasql.store.interface import LogStore


def check_place(log: LogStore, target: Target, report: TableCheck) -> None:
    """Report a place that another table could take, or that lets this one share another's."""
    held, others = log.held_place(target.table_id)
    # A table that is not ours to write may have given its place to one that was adopted there.
    if held is None or (held == "" and log.read_only_reason(target.table_id) is not None):
        return
    here = place_of(target.location)
    is_local = here.startswith(LOCAL)
    is_possible = held.startswith(f"{LOCAL}/") and held.endswith("/") if is_local else held == here
    if not is_possible:
        report.found(Kind.PLACE, f"dl_places says {held!r:.200}, its location is {here!r:.200}")
    for claim in others:
        report.found(Kind.PLACE, f"the table {claim.name} is at {claim.place:.200}, which overlaps")
