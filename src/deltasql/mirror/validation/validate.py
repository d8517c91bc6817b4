"""Validation: the mirror's view of a table, compared with SQL's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from deltasql.delta_log.last_checkpoint import hinted_version
from deltasql.delta_log.listing import LogListing, list_log
from deltasql.delta_log.names import LAST_CHECKPOINT, LOG
from deltasql.delta_log.reading import FilesAside, checkpoint_fault, read_mirror
from deltasql.errors import DeltaSqlError, TableNotFoundError, VersionNotFoundError
from deltasql.log.file_sums import FileHashes
from deltasql.log.replay import Replay
from deltasql.log.state import TableState
from deltasql.mirror.checkpoints.content import restated_metadata, restated_protocol
from deltasql.mirror.engine import Target
from deltasql.mirror.missing import Missing, missing_in
from deltasql.mirror.retained import first_kept
from deltasql.mirror.validation.by_sums import SumComparison, Summer
from deltasql.mirror.validation.checksums import is_wrong
from deltasql.mirror.validation.digests import Advance, commit_digests, differing
from deltasql.mirror.validation.second_reader import IndependentView, independent_view
from deltasql.objectstore import ObjectStore
from deltasql.showing.report import Report
from deltasql.store.checking.content import file_hashes
from deltasql.store.checking.queries import content_rows
from deltasql.store.checking.scratch import Scratch
from deltasql.store.interface import LogStore


@dataclass(slots=True, kw_only=True, repr=False)
class ValidationReport(Report):
    """How the mirror of a table differs from SQL, at the newest mirrored version or another.

    `missing` files are live in SQL only, `extra` ones in the mirror only, `different` ones differ
    in content; `digest_mismatches` are versions whose commit file has other bytes,
    `missing_versions` have no commit file, `foreign_versions` are unknown to SQL. `bridged` is the
    first and the last of the versions that a bridge left for later, which is no drift.
    `checksum_differs`: the checksum file, which many readers believe, has other sums or another
    schema than the version.
    `first_drift` is the first version that differs from its commit. `reader` names the reader of
    the mirror; what an independent one found is in the same fields, and `reader_error` says why it
    failed.
    """

    table: str
    version: int | None
    reader: str = "deltasql"
    missing: list[str] = field(default_factory=list)
    extra: list[str] = field(default_factory=list)
    different: list[str] = field(default_factory=list)
    metadata_differs: bool = False
    protocol_differs: bool = False
    txns_differ: bool = False
    domains_differ: bool = False
    checksum_differs: bool = False
    digest_mismatches: list[int] = field(default_factory=list)
    missing_versions: list[int] = field(default_factory=list)
    foreign_versions: list[int] = field(default_factory=list)
    first_drift: int | None = None
    checkpoint: int | None = None
    lag_versions: int = 0
    bridged: list[tuple[int, int]] = field(default_factory=list)
    error: str | None = None
    reader_error: str | None = None

    @property
    def ok(self) -> bool:
        """Whether mirror and SQL agree; a mirror that is merely behind does."""
        return self.first_drift is None and not self.differs and self.error is None

    @property
    def differs(self) -> bool:
        """Whether a reader of the mirror sees a different table than SQL has."""
        files = self.missing or self.extra or self.different
        table = self.metadata_differs or self.protocol_differs
        others = self.txns_differ or self.domains_differ or self.checksum_differs
        return bool(files or table or others)


def validate(
    log: LogStore,
    objects: ObjectStore,
    target: Target,
    *,
    version: int | None = None,
    options: Mapping[str, str] | None = None,
    progress: Advance | None = None,
    summer: Summer | None = None,
) -> ValidationReport:
    """Compare a table's mirror with SQL; `options` are passed to the independent reader.

    With `summer`, files are compared by sums first, and one by one only if those differ.
    """
    # Before the listing: everything that SQL says is mirrored by now is listed.
    before = log.head(target.table_id)
    missing = missing_in(log, target.table_id, -1 if before is None else before.version)
    # Before the listing as well: what it points at was written earlier.
    pointer = objects.read_tagged(LOG + LAST_CHECKPOINT) if version is None else None
    listing = list_log(objects)
    # After the listing: SQL by now knows everything of ours that was listed.
    head = log.head(target.table_id)
    if head is None:
        raise TableNotFoundError.named(target.name)
    newest = missing.newest
    if version is not None and (version < head.earliest_version or version in missing):
        raise VersionNotFoundError(
            f"{target.name} has no version {version} in its mirror",
            cause=f"its newest there is {newest}, and older ones may still be pending",
            remedy="ask for that one, or mirror the rest first",
        )
    report = ValidationReport(
        table=target.name,
        version=newest if version is None else version,
        lag_versions=head.version - newest,
        bridged=list(missing.bridged),
    )
    report.foreign_versions = listing.commits.after(head.version)
    # Even before the first version is mirrored: readers see whatever is there.
    _compare_commits(log, objects, target, listing, missing, report, progress)
    if newest >= head.earliest_version:
        _compare_snapshots(log, objects, target, listing, report, options, summer)
    if report.error is None:
        report.error = _start_fault(
            objects, listing, newest if version is None else version, pointer
        )
    report.first_drift = _first_drift(report)
    return report


def _first_drift(report: ValidationReport) -> int | None:
    drifts = [*report.digest_mismatches, *report.missing_versions, *report.foreign_versions]
    if report.checksum_differs and report.version is not None:
        drifts.append(report.version)
    if report.differs and not drifts:
        # If the commit files are sound, the fault is in the checkpoint that readers start from.
        return report.version if report.checkpoint is None else report.checkpoint
    return min(drifts, default=None)


# --- commit files ---------------------------------------------------------------------


def _compare_commits(
    log: LogStore,
    objects: ObjectStore,
    target: Target,
    listing: LogListing,
    missing: Missing,
    report: ValidationReport,
    progress: Advance | None,
) -> None:
    first = first_kept(log, target.table_id, listing, missing.newest)
    digests = commit_digests(log, target.table_id)
    report.missing_versions = sorted(
        version
        for version in digests
        if version >= first and version not in listing.commits and version not in missing
    )
    present = (v for v in digests if v >= first and v in listing.commits)
    report.digest_mismatches += differing(objects, digests, present, progress)


# --- snapshots ------------------------------------------------------------------------


def _compare_snapshots(
    log: LogStore,
    objects: ObjectStore,
    target: Target,
    listing: LogListing,
    report: ValidationReport,
    options: Mapping[str, str] | None,
    summer: Summer | None,
) -> None:
    version = report.version
    assert version is not None, "there is a mirrored version"
    record = log.state(target.table_id, version)
    assert record is not None, "a mirrored version is in SQL"
    state = record.parsed()
    sums = None
    if summer is not None:
        sums = SumComparison(summer, summer.rows(log, target.table_id, version))
    agreeing = None if sums is None else sums.mirror(objects, listing, version)
    if agreeing is not None:
        _compare_table(log, target, state, agreeing.checkpoint, agreeing.replay, report)
    else:
        _compare_one_by_one(log, objects, target, listing, state, report)
    _compare_with_independent(log, target, state, report, options, sums)
    report.checksum_differs = is_wrong(log, objects, listing, target.table_id, version)


def _compare_one_by_one(
    log: LogStore,
    objects: ObjectStore,
    target: Target,
    listing: LogListing,
    state: TableState,
    report: ValidationReport,
) -> None:
    with Scratch() as scratch:
        replay = FilesAside(scratch)
        try:
            checkpoint = read_mirror(objects, listing, state.version, replay)
            replay.table()
        except DeltaSqlError as error:
            report.error = f"{error.problem}: {error.cause}"
        else:
            _compare_table(log, target, state, checkpoint, replay, report)
            _compare_files(log, target, state.version, scratch, report)


def _compare_table(
    log: LogStore,
    target: Target,
    state: TableState,
    checkpoint: int | None,
    replay: Replay,
    report: ValidationReport,
) -> None:
    """Compare everything but files."""
    protocol, metadata = replay.table()
    report.checkpoint = checkpoint
    wanted = (restated_metadata(state.metadata), restated_protocol(state.protocol))
    report.metadata_differs = restated_metadata(metadata) != wanted[0]
    report.protocol_differs = restated_protocol(protocol) != wanted[1]
    _compare_others(log, target, replay, state.version, report)


def _compare_files(
    log: LogStore, target: Target, version: int, scratch: Scratch, report: ValidationReport
) -> None:
    """Compare the files that the mirror has, which are set aside, with the live rows.

    Checkpoints leave out dataChange and unknown fields and, by a table property, stats.
    """
    for row in content_rows(log.live_keys(target.table_id, version)):
        found = scratch.take(row.key)
        if found is None:
            report.missing.append(row.path)
            continue
        mirrored, known = found.file, file_hashes(row)
        if mirrored.content != known.content or mirrored.stats not in (b"", known.stats):
            report.different.append(row.path)
    report.extra += [path for path, _ in scratch.left_sizes()]


def _compare_others(
    log: LogStore, target: Target, replay: Replay, version: int, report: ValidationReport
) -> None:
    txns = {item.app_id: item.txn_version for item in log.txns(target.table_id, version)}
    report.txns_differ = txns != {name: txn.version for name, txn in replay.txns.items()}
    domains = {name: item.configuration for name, item in replay.domains.items()}
    report.domains_differ = domains != log.domains(target.table_id, version)


def _start_fault(
    objects: ObjectStore,
    listing: LogListing,
    version: int,
    pointer: tuple[bytes, str] | None,
) -> str | None:
    """Why readers can't open the table, although we can: few go back to an older checkpoint."""
    hint = None if pointer is None else hinted_version(pointer[0])
    if hint is not None and hint not in listing.checkpoints:
        return f"{LAST_CHECKPOINT} points at version {hint}: it has no checkpoint"
    newest = next(listing.newest_first(version), None)
    for found in () if newest is None else listing.checkpoints[newest.version]:
        fault = checkpoint_fault(objects, found)
        if fault is not None:
            return f"the checkpoint of version {found.version} can't be read: {fault}"
    return None


# --- the second reader -----------------------------------------------------------------


def _compare_with_independent(
    log: LogStore,
    target: Target,
    state: TableState,
    report: ValidationReport,
    options: Mapping[str, str] | None,
    sums: SumComparison | None,
) -> None:
    version = state.version
    files = log.totals(target.table_id, version).files
    commits = version - (0 if report.checkpoint is None else report.checkpoint)
    try:
        with independent_view(
            target.location, version, options or {}, files=files, commits=commits
        ) as view:
            if view is None:
                return
            agrees = sums is not None and sums.has_paths_of(view.files)
            if sums is None:
                _compare_sizes(log, target, version, view, report)
        if sums is not None and not agrees:
            # The files of a view are read only once.
            _compare_with_independent(log, target, state, report, options, None)
            return
    except DeltaSqlError as error:
        report.reader_error = f"{error.problem}: {error.cause}"
        return
    facts = view.facts
    report.reader = facts.reader
    report.metadata_differs |= (
        facts.table_id,
        facts.columns,
        facts.partition_columns,
        dict(facts.properties),
    ) != (
        state.metadata.id,
        tuple(item.name for item in state.schema.fields),
        state.partition_columns,
        dict(state.properties),
    )
    report.protocol_differs |= facts.protocol != (
        state.protocol.min_reader_version,
        state.protocol.min_writer_version,
    )


def _compare_sizes(
    log: LogStore, target: Target, version: int, view: IndependentView, report: ValidationReport
) -> None:
    known = {*report.missing, *report.extra, *report.different}
    with Scratch() as scratch:
        for path, size in view.paths_and_sizes():
            scratch.add(
                path.encode(), b"", file=FileHashes(b"", b"", size), version=version, path=path
            )
        for row in content_rows(log.live_keys(target.table_id, version)):
            found = scratch.take(row.path.encode())
            if row.path in known:
                continue
            if found is None:
                report.missing.append(row.path)
            elif found.file.size != row.size_bytes:
                report.different.append(row.path)
        report.extra += [path for path, _ in scratch.left_sizes() if path not in known]
