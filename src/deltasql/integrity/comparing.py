"""Compares the rows that exist with those that the commits must have left."""

from __future__ import annotations

from collections.abc import Mapping

from deltasql.errors import DeltaSqlError
from deltasql.integrity.commits import CommitReplay
from deltasql.integrity.expected import (
    OTHERS,
    is_dead,
    is_live,
    label_of,
)
from deltasql.integrity.findings import Kind, TableCheck
from deltasql.integrity.fingerprints import added_print, other_print, removed_print
from deltasql.log.file_sums import Digest
from deltasql.log.pruning.partition_ranges import PREFIX
from deltasql.spec import codec
from deltasql.store.checking.scratch import Scratch
from deltasql.store.interface import Head, LogStore


class RowComparison:
    """One comparison, as of a head; rows up to `since` were taken for granted."""

    def __init__(
        self, log: LogStore, head: Head, report: TableCheck, scratch: Scratch, *, since: int
    ) -> None:
        self._log = log
        self._head = head
        self._report = report
        self._scratch = scratch
        self._since = since

    def files(self) -> bytes:
        """Compare live and dead files; returns a digest of all their rows."""
        version, report = self._head.version, self._report
        digest = Digest()
        for row in self._log.file_rows(self._head.table_id, version):
            added, path = added_print(row.version, row.add), row.add.path
            if is_live(row, version):
                digest.add(added)
                expected = self._scratch.take(row.key)
                if expected is None:
                    problem = "it is live, but not according to any commit"
                    report.found(Kind.LIVE_FILE, problem, version=row.version, path=path)
                elif expected.fingerprint != added:
                    problem = "its row is not what its add says"
                    report.found(Kind.LIVE_FILE, problem, version=row.version, path=path)
            elif is_dead(row, version):
                removed = row.removal.version or 0
                found = removed_print(added, row.removal)
                digest.add(found)
                if removed <= self._since:
                    continue
                known = self._scratch.take_dead(row.key, removed)
                if known != found:
                    problem = (
                        "no commit removed or restated it"
                        if known is None
                        else "its row is not what its add and its remove say"
                    )
                    report.found(Kind.DEAD_FILE, problem, version=removed, path=path)
        for added_version, path in self._scratch.left_live():
            problem = "according to the commits it is live, but its row is missing"
            report.found(Kind.LIVE_FILE, problem, version=added_version, path=path)
        for removed, path in self._scratch.left_dead():
            problem = "a commit removed or restated it, but its row is missing"
            report.found(Kind.DEAD_FILE, problem, version=removed, path=path)
        return digest.value()

    def others(self) -> None:
        """Compare the rows that don't belong to files."""
        for kind, told in OTHERS.items():
            for row in self._log.other_rows(self._head.table_id, kind, self._head.version):
                version, label = row[0], label_of(kind, row)
                if version <= self._since:
                    continue
                expected = self._scratch.take_other(kind, version, label)
                if expected != other_print(row):
                    problem = (
                        "no commit has it" if expected is None else "its row is not what it says"
                    )
                    self._report.found(told, problem, version=version, path=label)
        for kind, version, label in self._scratch.left_other():
            problem = "a commit has it, but its row is missing"
            self._report.found(OTHERS[kind], problem, version=version, path=label)

    def partitions(self, expected: Mapping[int, str]) -> None:
        """Compare the partitions by which files are found; extra ones do no harm."""
        found = dict(self._log.partitions(self._head.table_id))
        for key, values in expected.items():
            if found.get(key) != values:
                problem = "it has files but is not listed that way: predicates miss them"
                self._report.found(Kind.PARTITION, problem, path=values)
        indexed: dict[int, dict[str, tuple[str | None, bool]]] = {}
        for key, name, form, value in self._log.partition_values(self._head.table_id):
            indexed.setdefault(key, {})[name] = value, form == "null"
        for key, values in expected.items():
            if found.get(key) == values and indexed.get(key, {}) != _indexed(values):
                problem = "its values are not indexed that way: predicates miss its files"
                self._report.found(Kind.PARTITION, problem, path=values)

    def head(self, replay: CommitReplay, last_ict: int | None) -> None:
        """Compare the head, and what `dl_tables` repeats from metadata and protocol."""
        head, report = self._head, self._report
        for name, expected, found in (
            ("metadata", replay.metadata_version, head.metadata_version),
            ("protocol", replay.protocol_version, head.protocol_version),
        ):
            if expected != found:
                problem = f"its {name} is that of version {expected}, not of {found}"
                report.found(Kind.HEAD, problem, version=head.version)
        if last_ict is not None and last_ict != head.last_ict:
            problem = f"its time is {last_ict}, not {head.last_ict}"
            report.found(Kind.HEAD, problem, version=head.version)
        columns = self._log.table_columns(head.table_id)
        now = self._log.head(head.table_id)
        is_still = now is not None and now.version == head.version
        if columns is None or not is_still or replay.metadata is None or replay.protocol is None:
            return
        if _loaded(columns.properties) != dict(replay.metadata.configuration):
            report.found(Kind.TABLE, "dl_tables has other properties than the metadata")
        if (columns.min_reader, columns.min_writer) != (
            replay.protocol.min_reader_version,
            replay.protocol.min_writer_version,
        ):
            report.found(Kind.TABLE, "dl_tables has other protocol versions than the protocol")


def _indexed(values: str) -> dict[str, tuple[str | None, bool]]:
    """What the index holds of a partition: the beginning of each value, and whether it is null."""
    return {
        name: (text[:PREFIX] if text else None, not text)
        for name, text in codec.loads(values).items()
    }


def _loaded(properties: str) -> object:
    try:
        return codec.loads(properties)
    except DeltaSqlError:
        return None
