"""Traces: one from the append over SQL to the put, in one process and across two."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import StringIO
from pathlib import Path

import pyarrow as pa
import pytest
from opentelemetry import trace
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import deltasql
from deltasql.errors import DeltaSqlError
from deltasql.telemetry import logs, tracing
from deltasql.testing.faulty_store import Call, Fault, FaultyStore

ROOT = Path(__file__).parents[2]
ROWS = pa.table({"id": [1]})


@pytest.fixture
def spans(monkeypatch) -> InMemorySpanExporter:
    """Traces in this process, for the time of a test."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    # A process has one provider for good; a test must not be the one who sets it.
    monkeypatch.setattr(tracing, "_tracer", provider.get_tracer("deltasql"))
    return exporter


@pytest.fixture
def log() -> Iterator[StringIO]:
    logger = logging.getLogger("deltasql")
    before = logger.level, logger.propagate, list(logger.handlers)
    stream = StringIO()
    logs.configure(form="json", level="info", stream=stream)
    yield stream
    logger.setLevel(before[0])
    logger.propagate = before[1]
    logger.handlers[:] = before[2]


def lines(stream: StringIO) -> list[dict]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def open_lake(folder: Path, **settings: str) -> deltasql.Lake:
    url = f"sqlite:///{folder / 'lake.db'}"
    return deltasql.connect(url, location=str(folder / "lake"), settings=settings)


def by_name(exporter: InMemorySpanExporter) -> dict[str, object]:
    return {span.name: span for span in exporter.get_finished_spans()}


def test_one_trace_from_the_append_to_the_put(tmp_path, spans, log):
    with open_lake(tmp_path) as lake:
        table = lake.create_table("sales.orders", ROWS.schema)
        spans.clear()
        with trace.get_tracer("app").start_as_current_span("outside"):
            # Without a provider of its own the application's span is none: the append is the root.
            table.append(ROWS)
        entry = table.history(limit=1)[0]
    found = by_name(spans)
    root = found["deltasql.append"]
    assert root.parent is None
    for name in ("deltasql.sql.commit", "deltasql.mirror.put"):
        assert found[name].context.trace_id == root.context.trace_id
        assert found[name].parent.span_id == root.context.span_id
        assert found[name].attributes["deltasql.commit_id"] == entry.commit_id
    put = found["deltasql.mirror.put"]
    assert put.attributes["deltasql.version"] == 1
    assert put.attributes["deltasql.key"].endswith("_delta_log/00000000000000000001.json")
    assert root.start_time <= put.start_time <= put.end_time
    # The trace id is beside the commit id in every line about the commit.
    told = [item for item in lines(log) if item.get("commit_id") == entry.commit_id]
    assert {item["message"] for item in told} == {"committed", "mirrored"}
    assert {item["trace_id"] for item in told} == {f"{root.context.trace_id:032x}"}


def test_a_transaction_and_statements_below_a_span_of_the_application(tmp_path, spans):
    with open_lake(tmp_path) as lake:
        for name in ("a", "b"):
            lake.create_table(name, ROWS.schema)
        spans.clear()
        with tracing.span("application") as outer, lake.transaction() as tx:
            for name in ("a", "b"):
                tx.table(name).append(ROWS)
        assert lake.table("a").update(None, {"id": "2"}).version == 2
    found = spans.get_finished_spans()
    mine = [item for item in found if item.context.trace_id == outer.get_span_context().trace_id]
    assert sorted(item.name for item in mine) == [
        "deltasql.application", "deltasql.mirror.put", "deltasql.mirror.put",
        "deltasql.sql.commit", "deltasql.transaction",
    ]  # fmt: skip
    others = {item.name for item in found if item not in mine}
    assert others == {"deltasql.dml", "deltasql.sql.commit", "deltasql.mirror.put"}


def test_a_put_that_fails_says_so_with_all_facts(tmp_path, spans, log):
    with open_lake(tmp_path) as lake:
        lake.objects.wrap(lambda store: FaultyStore(store, _no_version_1))
        table = lake.create_table("sales.orders", ROWS.schema)
        spans.clear()
        version = table.append(ROWS)
        entry = table.history(limit=1)[0]
        (put,) = [item for item in spans.get_finished_spans() if item.name.endswith("mirror.put")]
        assert put.status.status_code is trace.StatusCode.ERROR
        failed = next(item for item in lines(log) if "not mirrored" in item["message"])
        wanted = {"table": "sales.orders", "table_id": table.table_id, "version": version,
                  "attempt": 1, "commit_id": entry.commit_id,
                  "trace_id": f"{put.context.trace_id:032x}"}  # fmt: skip
        assert {key: failed.get(key) for key in wanted} == wanted
        assert failed["key"].endswith(f"{version:020}.json")
        assert failed["error"]


def _no_version_1(call: Call) -> Fault | None:
    return Fault.BEFORE if call.path.endswith(f"{1:020}.json") else None


def test_without_traces_nothing_is_imported(tmp_path):
    program = f"""
import sys
import deltasql, pyarrow as pa
from deltasql.telemetry import tracing
with deltasql.connect("sqlite:///{tmp_path}/lake.db", location="{tmp_path}/lake") as lake:
    table = lake.create_table("t", pa.schema([("id", pa.int64())]))
    table.append(pa.table({{"id": [1]}}))
    assert len(table.history(limit=1)[0].commit_id) == 36
print([name for name in sys.modules if name.startswith("opentelemetry")])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                          timeout=60, check=True)  # fmt: skip
    assert done.stdout.strip() == "[]"


@pytest.fixture
def collector() -> Iterator[tuple[str, list]]:
    """Where processes send their spans, in OpenTelemetry's own protocol."""
    received: list = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            for part in ExportTraceServiceRequest.FromString(body).resource_spans:
                for scope in part.scope_spans:
                    received.extend((part.resource, span) for span in scope.spans)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", received
    server.shutdown()
    server.server_close()


def test_a_writer_and_a_worker_in_two_processes(tmp_path, spans, collector):
    address, received = collector
    with open_lake(tmp_path, **{"mirror.mode": "async"}) as lake:
        table = lake.create_table("sales.orders", ROWS.schema)
        spans.clear()
        table.append(ROWS)
        commit_id = table.history(limit=1)[0].commit_id
    trace_id = by_name(spans)["deltasql.append"].context.trace_id
    assert "deltasql.mirror.put" not in by_name(spans)
    done = subprocess.run(
        [sys.executable, "-m", "deltasql.cli", "mirror", "run", "--once",
         "--url", f"sqlite:///{tmp_path}/lake.db", "--location", str(tmp_path / "lake"),
         "--set", "telemetry.traces=on", "--set", "log.format=json", "--set", "log.level=info"],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "src"),
             "OTEL_EXPORTER_OTLP_ENDPOINT": address},
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    puts = [(resource, span) for resource, span in received if span.name == "deltasql.mirror.put"]
    # Version 0 has a trace of its own, of its creation.
    (found,) = [item for item in puts if int.from_bytes(item[1].trace_id) == trace_id]
    assert (
        int.from_bytes(found[1].parent_span_id) == by_name(spans)["deltasql.append"].context.span_id
    )
    names = {item.key: item.value.string_value for item in found[0].attributes}
    assert names["service.name"] == "deltasql"
    told = [json.loads(line) for line in done.stderr.splitlines() if '"mirrored"' in line]
    assert (commit_id, f"{trace_id:032x}") in {(x["commit_id"], x["trace_id"]) for x in told}


def test_ids_without_a_trace():
    plain = "2f9f5f1e-5d1b-4a3e-9c55-0d7b3c1f2a10"
    assert tracing.trace_id_of(plain) is None
    assert tracing.trace_id_of("load-17") is None
    assert tracing.trace_id_of(f"{'a' * 32}-{'b' * 16}-{'c' * 16}") == "a" * 32
    error = DeltaSqlError("it broke")
    logs.attach(error, {"key": "k"})
    made = logging.LogRecord("deltasql", logging.INFO, "x.py", 1, "m", (), None)
    made.error = error
    assert json.loads(logs.JsonFormatter().format(made))["key"] == "k"
