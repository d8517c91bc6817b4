"""Validation: the mirror's view of a table, compared with SQL's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from deltasql.delta_log.listing import LogListing, list_log
from deltasql.delta_log.reading import read_mirror
from deltasql.errors import DeltaSqlError, TableNotFoundError, VersionNotFoundError
from deltasql.log.replay import FileKey, Replay
from deltasql.log.state import TableState
from deltasql.mirror.checkpoints.content import restated_metadata, restated_protocol
from deltasql.mirror.engine import Target
from deltasql.mirror.missing import Missing, missing_in
from deltasql.mirror.retained import first_kept
from deltasql.mirror.validation.cross_check import independent_view
from deltasql.mirror.validation.digests import Advance, commit_digests, differing
from deltasql.objectstore import ObjectStore
from deltasql.spec.actions import AddFile
from deltasql.store.file_rows import from_batch
from deltasql.store.interface import LogStore


@dataclass(slots=True, kw_only=True)
class ValidationReport:
    """How the mirror of a table differs from SQL, at the newest mirrored version or another.

    `missing` files are live in SQL only, `extra` ones in the mirror only, `different` ones differ
    in content; `digest_mismatches` are versions whose commit file has other bytes,
    `missing_versions` have no commit file, `foreign_versions` are unknown to SQL. `bridged` is the
    first and the last of the versions that a bridge left for later, which is no drift.
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
        return bool(files or table or self.txns_differ or self.domains_differ)


def validate(
    log: LogStore,
    objects: ObjectStore,
    target: Target,
    *,
    version: int | None = None,
    options: Mapping[str, str] | None = None,
    progress: Advance | None = None,
) -> ValidationReport:
    """Compare a table's mirror with SQL; `options` are passed to the independent reader."""
    # Before the listing: everything that SQL says is mirrored by now is listed.
    before = log.head(target.table_id)
    missing = missing_in(log, target.table_id, -1 if before is None else before.version)
    listing = list_log(objects)
    # After the listing: SQL by now knows everything of ours that was listed.
    head = log.head(target.table_id)
    if head is None:
        raise TableNotFoundError.named(target.name)
    newest = missing.newest
    if version is not None and (version < head.earliest_version or version in missing):
        raise VersionNotFoundError(
            f"{target.name} has no version {version} in its mirror",
            cause=f"its newest there is {newest}, and older ones may still be on their way",
            remedy="ask for that one, or mirror the rest first",
        )
    report = ValidationReport(
        table=target.name,
        version=newest if version is None else version,
        lag_versions=head.version - newest,
        bridged=list(missing.bridged),
    )
    report.foreign_versions = sorted(number for number in listing.commits if number > head.version)
    # Even before the first version is mirrored: readers see whatever is there.
    _compare_commits(log, objects, target, listing, missing, report, progress)
    if newest >= head.earliest_version:
        _compare_snapshots(log, objects, target, listing, report, options)
    report.first_drift = _first_drift(report)
    return report


def _first_drift(report: ValidationReport) -> int | None:
    drifts = [*report.digest_mismatches, *report.missing_versions, *report.foreign_versions]
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
) -> None:
    version = report.version
    assert version is not None, "there is a mirrored version"
    record = log.state(target.table_id, version)
    assert record is not None, "a mirrored version is in SQL"
    state = record.parsed()
    try:
        mirrored = read_mirror(objects, listing, version)
        protocol, metadata = mirrored.replay.table()
    except DeltaSqlError as error:
        report.error = f"{error.problem}: {error.cause}"
    else:
        report.checkpoint = mirrored.checkpoint
        report.metadata_differs = restated_metadata(metadata) != restated_metadata(state.metadata)
        report.protocol_differs = restated_protocol(protocol) != restated_protocol(state.protocol)
        _compare_files(_adds(log, target, version), mirrored.replay, report)
        _compare_others(log, target, mirrored.replay, version, report)
    _compare_with_independent(log, target, state, report, options)


def _adds(log: LogStore, target: Target, version: int) -> Iterator[AddFile]:
    for batch in log.files(target.table_id, version):
        yield from from_batch(batch)


def _compare_files(adds: Iterator[AddFile], replay: Replay, report: ValidationReport) -> None:
    left: dict[FileKey, AddFile] = dict(replay.files)
    for add in adds:
        found = left.pop((add.path, add.dv_id), None)
        if found is None:
            report.missing.append(add.path)
        elif _plain_add(found, like=found) != _plain_add(add, like=found):
            report.different.append(add.path)
    report.extra += [path for path, _ in left]


def _plain_add(add: AddFile, *, like: AddFile) -> tuple[Any, ...]:
    """The fields of a file that commit files and checkpoints share.

    Checkpoints leave out dataChange and unknown fields and, by a table property, stats.
    """
    return (
        add.size,
        add.modification_time,
        dict(add.partition_values),
        None if like.stats is None else add.stats,
        dict(add.tags or {}),
        add.deletion_vector and replace(add.deletion_vector, extra={}),
        add.base_row_id,
        add.default_row_commit_version,
        add.clustering_provider,
    )


def _compare_others(
    log: LogStore, target: Target, replay: Replay, version: int, report: ValidationReport
) -> None:
    txns = {item.app_id: item.txn_version for item in log.txns(target.table_id, version)}
    report.txns_differ = txns != {name: txn.version for name, txn in replay.txns.items()}
    domains = {name: item.configuration for name, item in replay.domains.items()}
    report.domains_differ = domains != log.domains(target.table_id, version)


# --- the second reader -----------------------------------------------------------------


def _compare_with_independent(
    log: LogStore,
    target: Target,
    state: TableState,
    report: ValidationReport,
    options: Mapping[str, str] | None,
) -> None:
    version = state.version
    try:
        view = independent_view(target.location, version, options or {})
    except DeltaSqlError as error:
        report.reader_error = f"{error.problem}: {error.cause}"
        return
    if view is None:
        return
    report.reader = view.reader
    known = {*report.missing, *report.extra, *report.different}
    left = dict(view.sizes)
    for add in _adds(log, target, version):
        size = left.pop(add.path, None)
        if add.path in known:
            continue
        if size is None:
            report.missing.append(add.path)
        elif size != add.size:
            report.different.append(add.path)
    report.extra += [path for path in left if path not in known]
    report.metadata_differs |= (
        view.table_id,
        view.columns,
        view.partition_columns,
        dict(view.properties),
    ) != (
        state.metadata.id,
        tuple(item.name for item in state.schema.fields),
        state.partition_columns,
        dict(state.properties),
    )
    report.protocol_differs |= view.protocol != (
        state.protocol.min_reader_version,
        state.protocol.min_writer_version,
    )
