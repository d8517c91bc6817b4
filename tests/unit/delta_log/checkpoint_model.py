"""Checkpoints of tables made by hand, and what the check found in them."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count

import pyarrow as pa

from deltasql.delta_log.checkpoint.v2 import V2Checkpoint, write_v2_checkpoint
from deltasql.delta_log.checkpoint.writing import (
    CheckpointSource,
    CheckpointSummary,
    write_checkpoint,
)
from deltasql.log.state import TableState
from deltasql.spec import codec
from deltasql.spec.actions import AddFile, RemoveFile
from deltasql.store.file_rows import to_table
from deltasql.store.interface import TxnRecord
from deltasql.testing.delta_log import CheckpointActions, check_checkpoint


def tombstones(removes: Iterable[RemoveFile]) -> pa.Table:
    texts = [codec.dumps(codec.wire_fields(remove)).decode() for remove in removes]
    return pa.table({"action": pa.array(texts, pa.string())})


def source(
    state: TableState,
    files: Iterable[AddFile] = (),
    removes: Iterable[RemoveFile] = (),
    *,
    txns: Sequence[TxnRecord] = (),
    domains: Mapping[str, str] | None = None,
    batch_rows: int = 1000,
) -> CheckpointSource:
    return CheckpointSource(
        state=state,
        files=iter(to_table(files).to_batches(max_chunksize=batch_rows)),
        tombstones=iter(tombstones(removes).to_batches(max_chunksize=batch_rows)),
        txns=txns,
        domains=domains or {},
    )


def classic(given: CheckpointSource) -> tuple[CheckpointSummary, CheckpointActions, bytes]:
    sink = io.BytesIO()
    summary = write_checkpoint(sink, given)
    content = sink.getvalue()
    return summary, check_checkpoint(content), content


def uuids() -> Iterator[str]:
    return (f"{number:08x}-0000-4000-8000-000000000000" for number in count(1))


class Log:
    """A `_delta_log` in memory: objects appear when their block ends well."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}

    @contextmanager
    def open(self, name: str) -> Iterator[io.BytesIO]:
        sink = io.BytesIO()
        yield sink
        assert name not in self.objects
        self.objects[name] = sink.getvalue()


def v2(given: CheckpointSource, **options: int) -> tuple[V2Checkpoint, CheckpointActions, Log]:
    log, ids = Log(), uuids()
    done = write_v2_checkpoint(
        log.open, given, new_uuid=lambda: next(ids), modification_time=7, **options
    )
    found = check_checkpoint(
        log.objects[done.name], sidecars=lambda name: log.objects[f"_sidecars/{name}"]
    )
    return done, found, log
