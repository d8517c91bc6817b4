"""Versions of tables for Spark: what they are, and their files, skipped in SQL."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from deltasql.commit.commit_logging import after_commit
from deltasql.delta_log.checksum import render_checksum
from deltasql.errors import VersionNotFoundError
from deltasql.lake.snapshot import Snapshot
from deltasql.lake.table import Table
from deltasql.log.predicates.predicate import Predicate
from deltasql.log.retention import tombstone_ms
from deltasql.log.state import TableState
from deltasql.spark.catalog import blocks
from deltasql.spark.catalog.places import Places
from deltasql.spark.catalog.staging import Block, View
from deltasql.spark.native.file_transfer import files_as_json
from deltasql.spark.native.skipping import decidable
from deltasql.spec import codec
from deltasql.spec.features import FENCE
from deltasql.store.interface import TxnRecord
from deltasql.store.mirroring.interface import Totals

if TYPE_CHECKING:
    from deltasql.lake.catalog import Lake


# After opening a table, Spark asks for its files.
_MOST_KEPT = 64


class _Kept:
    """Recently requested versions, which never change."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._snapshots: dict[tuple[int, int], Snapshot] = {}

    def get(self, key: tuple[int, int]) -> Snapshot | None:
        return self._snapshots.get(key)

    def keep(self, key: tuple[int, int], snapshot: Snapshot) -> None:
        with self._lock:
            self._snapshots.pop(key, None)
            self._snapshots[key] = snapshot
            while len(self._snapshots) > _MOST_KEPT:
                del self._snapshots[next(iter(self._snapshots))]


class Snapshots:
    """Answers about one version."""

    def __init__(self, lake: Lake, places: Places) -> None:
        self._lake = lake
        self._places = places
        self._kept = _Kept()

    @property
    def answers(self) -> Mapping[str, Callable[[Mapping[str, Any]], Any]]:
        """By verb."""
        return {
            "snapshot": self._snapshot,
            "files": self._files,
            "totals": self._totals,
            "state": self._state,
        }

    def _snapshot(self, question: Mapping[str, Any]) -> dict[str, Any] | None:
        """The newest version, or a given one; None if there is no such table or version."""
        found = self._places.newest_at(question["path"])
        if found is None:
            return None
        table, version = found
        block = blocks.of(question, self._lake)
        if block is not None:
            return self._inside(block, table, question)
        if question.get("table_id") == table.table_id and question["known"] == version:
            return {"unchanged": True}
        return self._stored(table, question.get("version"))

    def after(self, table: Table, version: int, block: Block | None) -> dict[str, Any] | None:
        """A table after a commit, its own or one inside a transaction; None if that is unknown.

        Never raises: the commit stands, and whoever needs its snapshot can ask again.
        """
        found = None
        with after_commit("describing", table.name):
            found = (
                self._stored(table, None)
                if block is None
                else _described(table, block.newest(table))
            )
        return found if found is not None and found["version"] >= version else None

    def _inside(
        self, block: Block, table: Table, question: Mapping[str, Any]
    ) -> dict[str, Any] | None:
        """The same as a transaction sees it: no version after its cut except its own."""
        version = question.get("version")
        if version is None:
            view = block.newest(table)
            if question.get("table_id") == table.table_id and question["known"] == view.version:
                return {"unchanged": True}
            return _described(table, view)
        if version <= block.base(table):
            return self._stored(table, version)
        seen = block.seen(table.table_id, version)
        return None if seen is None else _described(table, seen)

    def _stored(self, table: Table, version: int | None) -> dict[str, Any] | None:
        try:
            snapshot = table.snapshot(version)
        except VersionNotFoundError:
            return None
        return _described(table, self._view(table.table_id, snapshot))

    def _view(self, table_id: int, snapshot: Snapshot) -> View:
        version = snapshot.version
        self._kept.keep((table_id, version), snapshot)
        txns = self._lake.store.reads.txns(table_id, version)
        return View(version, snapshot, txns, snapshot.domains)

    def _totals(self, question: Mapping[str, Any]) -> list[int]:
        """How many files there are, and their bytes; this reads all of them."""
        block = blocks.of(question, self._lake)
        table_id, version = question["table_id"], question["version"]
        seen = None if block is None else block.seen(table_id, version)
        more = None if seen is None else seen.more
        if more is None:
            found = self._lake.store.totals(table_id, version)
            return [found.files, found.size_bytes]
        found = self._lake.store.totals(table_id, more.version)
        return [found.files + more.files, found.size_bytes + more.size_bytes]

    def _files(self, question: Mapping[str, Any]) -> str:
        snapshot = self._pinned(question)
        predicate = understood(question["filters"], snapshot.state, time_zone=question["time_zone"])
        batches = self._present(snapshot.batches(predicate), question)
        block = blocks.of(question, self._lake)
        if block is not None:
            table = self._places.pinned(question["path"], question["table_id"])
            batches = block.noted(table, snapshot, predicate, batches)
        rows = question["num_records"]
        return write_file(files_as_json(batches, num_records=rows))

    def _present(
        self, batches: Iterable[pa.RecordBatch], question: Mapping[str, Any]
    ) -> Iterator[pa.RecordBatch]:
        """The files. If the table of a kept version was purged since, there would be none."""
        rows = 0
        for batch in batches:
            rows += batch.num_rows
            yield batch
        if not rows and self._kept.get((question["table_id"], question["version"])) is not None:
            table = self._places.pinned(question["path"], question["table_id"])
            table.snapshot(version=question["version"])

    def _state(self, question: Mapping[str, Any]) -> str:
        """Every action in force, one per line, for operations that need all files."""
        table_id, version = question["table_id"], question["version"]
        block = blocks.of(question, self._lake)
        view = None if block is None else block.seen(table_id, version)
        return write_file(
            self._lines(view or self._view(table_id, self._pinned(question)), table_id)
        )

    def _lines(self, view: View, table_id: int) -> Iterator[bytes]:
        store, snapshot, state = self._lake.store, view.snapshot, view.snapshot.state
        seen = without_fence(state)
        for action in (seen.protocol, seen.metadata):
            yield codec.encode(action) + b"\n"
        for wire in (*txns(view.txns), *domains(view.domains)):
            yield codec.dumps(wire) + b"\n"
        for add in snapshot.adds():
            yield codec.encode(add) + b"\n"
        expired = store.clock_ms() - tombstone_ms(state.properties)
        for batch in store.tombstones(table_id, snapshot.version, newer_than=expired):
            yield from _removes(batch)

    def _pinned(self, question: Mapping[str, Any]) -> Snapshot:
        """The version that Spark has planned with."""
        table_id, version = question["table_id"], question["version"]
        block = blocks.of(question, self._lake)
        seen = None if block is None else block.seen(table_id, version)
        if seen is not None:
            return seen.snapshot
        known = self._kept.get((table_id, version))
        if known is None:
            table = self._places.pinned(question["path"], table_id)
            known = table.snapshot(version=version)
            self._kept.keep((table_id, version), known)
        return known


def _described(table: Table, view: View) -> dict[str, Any]:
    state = without_fence(view.snapshot.state)
    # Callers that need the sums ask for them.
    checksum = codec.loads(render_checksum(state, Totals(view.version, 0, 0)))
    checksum["setTransactions"] = [wire["txn"] for wire in txns(view.txns)]
    checksum["domainMetadata"] = [wire["domainMetadata"] for wire in domains(view.domains)]
    return {
        "table_id": table.table_id,
        "version": view.version,
        "timestamp": state.in_commit_timestamp,
        "checksum": checksum,
    }


def understood(texts: Sequence[str], state: TableState, *, time_zone: str) -> Predicate | None:
    """What the database understands of a conjunction of conditions."""
    return decidable([text for text in texts if text], state, time_zone=time_zone)[0]


def without_fence(state: TableState) -> TableState:
    """The state as Delta may see it: our fence is for foreign writers, and this one is ours."""
    protocol = state.protocol
    if FENCE not in (protocol.writer_features or ()):
        return state
    features = tuple(name for name in protocol.writer_features or () if name != FENCE)
    return replace(state, protocol=replace(protocol, writer_features=features))


def txns(records: Iterable[TxnRecord]) -> Iterator[dict[str, Any]]:
    """How far applications got, as actions."""
    for record in records:
        fields: dict[str, Any] = {"appId": record.app_id, "version": record.txn_version}
        if record.last_updated is not None:
            fields["lastUpdated"] = record.last_updated
        yield {"txn": fields}


def domains(configurations: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Domains as actions."""
    for name, text in configurations.items():
        yield {"domainMetadata": {"domain": name, "configuration": text, "removed": False}}


def write_file(parts: Iterable[bytes | memoryview]) -> str:
    """A local file for the driver to read and delete."""
    descriptor, name = tempfile.mkstemp(prefix="deltasql-files-", suffix=".json")
    with os.fdopen(descriptor, "wb") as out:
        for part in parts:
            out.write(part)
    return name


def _removes(batch: pa.RecordBatch) -> Iterator[bytes]:
    for text in batch.column("action").to_pylist():
        yield b'{"remove":' + text.encode() + b"}\n"
