"""Prometheus: `promtool` runs the tests of rules, and a server scrapes a running service."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any, Self

import httpx

from tests.parts.process import LoopbackProcess, PartMissingError, apt_install


def find() -> str:
    """The program that checks rules."""
    program = shutil.which("promtool")
    if program is None:
        raise PartMissingError("promtool is not installed; run: make parts")
    return program


def ensure() -> None:
    """Install it unless it is there."""
    try:
        find()
    except PartMissingError:
        apt_install("prometheus")


class Prometheus(LoopbackProcess):
    """A server that scrapes one target as the job `deltasql`, several times a second."""

    name = "prometheus"

    def __init__(self, directory: Path, target: str, rules: str) -> None:
        super().__init__(directory)
        self._http = httpx.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=20)
        (directory / "rules.yaml").write_text(rules)
        (directory / "prometheus.yaml").write_text(
            "global: {scrape_interval: 300ms, scrape_timeout: 300ms, evaluation_interval: 300ms}\n"
            "rule_files: [rules.yaml]\n"
            "scrape_configs:\n"
            f"  - {{job_name: deltasql, static_configs: [{{targets: ['{target}']}}]}}\n"
        )

    def command(self) -> list[str]:
        program = shutil.which("prometheus")
        if program is None:
            raise PartMissingError("prometheus is not installed; run: make parts")
        return [program, "--config.file=prometheus.yaml", "--storage.tsdb.path=data",
                f"--web.listen-address=127.0.0.1:{self.port}", "--log.level=warn"]  # fmt: skip

    def start(self) -> Self:
        """It listens before it answers."""
        super().start()
        deadline = time.monotonic() + 30
        while self._http.get("/-/ready").status_code != httpx.codes.OK:
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.05)
        return self

    def query(self, expression: str) -> list[dict[str, Any]]:
        """What an expression is now."""
        answer = self._http.get("/api/v1/query", params={"query": expression}).json()
        assert answer["status"] == "success", (expression, answer)
        found: list[dict[str, Any]] = answer["data"]["result"]
        return found

    def firing(self) -> set[str]:
        """The names of the alerts that fire."""
        found = self.query('ALERTS{alertstate="firing"}')
        return {item["metric"]["alertname"] for item in found}

    def wait(self, *, fires: str = "", ends: str = "", timeout: float = 60) -> None:
        """Until an alert fires, or no longer does."""
        deadline = time.monotonic() + timeout
        while True:
            found = self.firing()
            if (not fires or fires in found) and ends not in found:
                return
            assert time.monotonic() < deadline, (fires, ends, found)
            time.sleep(0.2)

    def stop(self) -> None:
        self._http.close()
        super().stop()
