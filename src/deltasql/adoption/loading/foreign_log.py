"""A `_delta_log` written by others: which of its versions can be loaded, and from where."""

from __future__ import annotations

from dataclasses import dataclass

from deltasql.delta_log.listing import FoundCheckpoint, LogListing, list_log
from deltasql.delta_log.names import LogKind, commit_name
from deltasql.delta_log.reading import checkpoint_fault
from deltasql.errors import LogFormatError, TableNotFoundError
from deltasql.objectstore import ObjectStore


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPlan:
    """What there is to load.

    The commit files from `first` to `newest` are there without a gap. If they don't reach back to
    version 0, `base` is the oldest checkpoint that they connect to, and versions before it are
    history that can be listed but not read.
    """

    listing: LogListing
    first: int
    newest: int
    base: FoundCheckpoint | None
    problems: tuple[str, ...] = ()

    @property
    def earliest(self) -> int:
        """The oldest version that can be read."""
        return 0 if self.base is None else self.base.version


def plan_log(objects: ObjectStore) -> LogPlan:
    """List a log and find where its history begins; `LogFormatError` if nowhere."""
    listing = list_log(objects)
    if not listing.commits and not listing.checkpoints:
        raise TableNotFoundError(
            f"there is no Delta table at {objects.location}",
            cause=_what_is_there(listing),
            remedy="pass the folder that has _delta_log in it",
        )
    newest = max(listing.commits.last or 0, *listing.checkpoints, 0)
    first = newest + 1
    while first - 1 in listing.commits:
        first -= 1
    problems = _incomplete(listing)
    if first == 0:
        return LogPlan(listing=listing, first=0, newest=newest, base=None, problems=problems)
    base, faults = _base(objects, listing, first)
    if base is None:
        raise _no_beginning(listing, first, (*faults, *problems))
    if next(iter(listing.commits), first) < first:
        faults = (*faults, f"{commit_name(first - 1)} is missing: older versions can't be read")
    return LogPlan(
        listing=listing, first=first, newest=newest, base=base, problems=(*faults, *problems)
    )


def _what_is_there(listing: LogListing) -> str:
    if not listing.is_empty:
        return "its _delta_log has neither a commit file nor a complete checkpoint"
    return "its _delta_log is empty or absent"


def _base(
    objects: ObjectStore, listing: LogListing, first: int
) -> tuple[FoundCheckpoint | None, tuple[str, ...]]:
    """The oldest sound checkpoint that the commits connect to, and what is wrong with others."""
    faults: list[str] = []
    for version in sorted(listing.checkpoints):
        if version < first - 1:
            continue
        for found in listing.checkpoints[version]:
            fault = checkpoint_fault(objects, found)
            if fault is None:
                return found, tuple(faults)
            faults.append(f"{found.names[0]} can't be read: {fault}")
    return None, tuple(faults)


def _incomplete(listing: LogListing) -> tuple[str, ...]:
    """Multi-part checkpoints that lack parts: readers ignore them (rule 30)."""
    parts: dict[tuple[int, int], set[int]] = {}
    for name, _ in listing.of_kind(LogKind.CHECKPOINT_PART):
        assert name.version is not None
        assert name.parts is not None
        assert name.part is not None
        parts.setdefault((name.version, name.parts), set()).add(name.part)
    return tuple(
        f"{version:020d}.checkpoint.{missing:010d}.{count:010d}.parquet is missing: "
        "the checkpoint is incomplete"
        for (version, count), found in sorted(parts.items())
        if len(found) < count
        for missing in [min(set(range(1, count + 1)) - found)]
    )


def _no_beginning(listing: LogListing, first: int, faults: tuple[str, ...]) -> LogFormatError:
    missing = commit_name(first - 1)
    known = "; ".join(faults) or "and there is no complete checkpoint to begin with instead"
    if not listing.commits:
        return LogFormatError(
            f"_delta_log/{missing} is missing, and so are all commit files",
            cause=known,
            remedy="restore them from a copy",
            version=first - 1,
        )
    return LogFormatError(
        f"_delta_log/{missing} is missing",
        cause=known,
        remedy="restore it from a copy, or a checkpoint of that version or a later one",
        version=first - 1,
    )
