"""Versions of tables for Spark: what they are, and their files, skipped in SQL."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from deltasql.delta_log.checksum import render_checksum
from deltasql.errors import VersionNotFoundError
from deltasql.lake.snapshot import Snapshot
from deltasql.lake.table import Table
from deltasql.log.predicates.predicate import Predicate
from deltasql.log.retention import tombstone_ms
from deltasql.log.state import TableState
from deltasql.spark.catalog import blocks
from deltasql.spark.catalog.places import Places
from deltasql.spark.catalog.rendering import files_as_json
from deltasql.spark.catalog.staging import Block, View
from deltasql.spark.native.skipping import decidable
from deltasql.spec import codec
from deltasql.spec.features import FENCE
from deltasql.store.interface import TxnRecord

if TYPE_CHECKING:
    from deltasql.lake.catalog import Lake


class Snapshots:
    """Answers about one version."""

    def __init__(self, lake: Lake, places: Places) -> None:
        self._lake = lake
        self._places = places

    @property
    def answers(self) -> Mapping[str, Callable[[Mapping[str, Any]], Any]]:
        """By verb."""
        return {"snapshot": self._snapshot, "files": self._files, "state": self._state}

    def _snapshot(self, question: Mapping[str, Any]) -> dict[str, Any] | None:
        """The newest version, or a given one; None if there is no such table or version."""
        table = self._places.at(question["path"])
        if table is None:
            return None
        block = blocks.of(question, self._lake)
        if block is not None:
            return self._inside(block, table, question)
        if question.get("table_id") == table.table_id and question["known"] == table.version:
            return {"unchanged": True}
        return self._stored(table, question.get("version"))

    def _inside(
        self, block: Block, table: Table, question: Mapping[str, Any]
    ) -> dict[str, Any] | None:
        """The same as a transaction sees it: no version from after its cut but its own."""
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
        store, version = self._lake.store, snapshot.version
        return View(
            version,
            snapshot,
            store.totals(table_id, version),
            store.txns(table_id, version),
            snapshot.domains,
        )

    def _files(self, question: Mapping[str, Any]) -> str:
        snapshot = self._pinned(question).snapshot
        predicate = understood(question["filters"], snapshot.state, time_zone=question["time_zone"])
        batches = snapshot.batches(predicate)
        block = blocks.of(question, self._lake)
        if block is not None:
            table = self._places.pinned(question["path"], question["table_id"])
            batches = block.noted(table, snapshot, predicate, batches)
        rows = question["num_records"]
        return write_file(files_as_json(batches, num_records=rows))

    def _state(self, question: Mapping[str, Any]) -> str:
        """Every action in force, a line each: for what looks at all files."""
        return write_file(self._lines(self._pinned(question), question["table_id"]))

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

    def _pinned(self, question: Mapping[str, Any]) -> View:
        table_id, version = question["table_id"], question["version"]
        block = blocks.of(question, self._lake)
        seen = None if block is None else block.seen(table_id, version)
        if seen is not None:
            return seen
        table = self._places.pinned(question["path"], table_id)
        return self._view(table_id, table.snapshot(version=version))


def _described(table: Table, view: View) -> dict[str, Any]:
    state = without_fence(view.snapshot.state)
    checksum = codec.loads(render_checksum(state, view.totals))
    checksum["setTransactions"] = [wire["txn"] for wire in txns(view.txns)]
    checksum["domainMetadata"] = [wire["domainMetadata"] for wire in domains(view.domains)]
    return {
        "table_id": table.table_id,
        "version": view.version,
        "timestamp": state.in_commit_timestamp,
        "checksum": checksum,
    }


def understood(texts: Sequence[str], state: TableState, *, time_zone: str) -> Predicate | None:
    """What the database understands of conditions that all hold."""
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
