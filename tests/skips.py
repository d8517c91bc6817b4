"""In CI a skipped test is a failed one: a part that quietly went missing must not look green."""

from __future__ import annotations

import os

import pytest

_skipped: list[str] = []


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    # An expected failure reports itself as skipped, too.
    if report.skipped and not hasattr(report, "wasxfail") and "gcs" not in report.keywords:
        _skipped.append(f"{report.nodeid}: {_reason(report)}")


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.skipped:
        _skipped.append(f"{report.nodeid}: {_reason(report)}")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    if _forbidden() and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _forbidden():
        terminalreporter.section("skipped, which CI does not allow", red=True)
        for line in _skipped:
            terminalreporter.line(line)


def _forbidden() -> bool:
    return bool(_skipped) and os.environ.get("CI") == "true"


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    where = report.longrepr
    return str(where[2]) if isinstance(where, tuple) else str(where)
