"""The OpenAPI document is true: schemathesis makes requests from it, and finds nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sizes import FULL

CONFIG = Path(__file__).with_name("schemathesis.toml")


def test_the_document_is_true(shared_service, tmp_path):
    pytest.importorskip("schemathesis", reason="schemathesis is not installed; run: make lock")
    examples, phases = ("100", "coverage,fuzzing,stateful") if FULL else ("3", "fuzzing")
    done = subprocess.run(
        [sys.executable, "-m", "schemathesis.cli", "--config-file", CONFIG, "run",
         f"{shared_service.address}/api/openapi.json", "--max-examples", examples,
         "--phases", phases, "--request-timeout", "60", "--no-color"],
        cwd=tmp_path, capture_output=True, text=True, timeout=1000, check=False,
        env={**os.environ, "NO_PROXY": "127.0.0.1"},
    )  # fmt: skip
    assert done.returncode == 0, _told(done)
    assert "Tested: " in done.stdout
    # Whatever was sent, nothing failed unexpectedly, and the lake is whole.
    assert "Traceback" not in (shared_service.folder / "service.log").read_text()
    with shared_service.lake() as lake:
        assert lake.check().ok


def test_failures_are_in_the_document(shared_service):
    told = shared_service.http.get("/api/openapi.json").json()
    for path, operations in told["paths"].items():
        for operation in operations.values():
            content = operation["responses"]["422"]["content"]
            assert list(content) == ["application/problem+json"], path
    assert "HTTPValidationError" not in told["components"]["schemas"]
    for number in ("0.5", "1700000000"):
        answer = shared_service.http.get("/api/v1/audit", params={"to": number})
        assert answer.status_code == 422


def test_a_wrong_method_is_told_the_right_ones(shared_service):
    job = "/api/v1/jobs/" + "0" * 32
    for path, methods in ((job, "DELETE, GET, HEAD"), ("/login", "GET, HEAD, POST")):
        answer = shared_service.http.request("PATCH", path)
        assert (answer.status_code, answer.headers["allow"]) == (405, methods)


def _told(done: subprocess.CompletedProcess[str]) -> str:
    """Its failures, without the length of what it sent."""
    _, _, told = done.stdout.partition("FAILURES")
    return "\n".join(line[:400] for line in (told or done.stdout).splitlines()[:80]) + done.stderr
