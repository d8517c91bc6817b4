"""How long each module takes, and how much of the machine: kept in pytest's cache, shown by `-v`.

`.pytest_cache/v/deltasql/durations` has the newest seconds of each module, setup and teardown
included; `cpu` beside it has those of the processors, Spark's and all that a worker has started.
A daemon that leaves its worker, as PostgreSQL does, is not in them.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Generator
from contextlib import suppress
from typing import Any

import psutil
import pytest

_spent: Counter[str] = Counter()
_cpu: Counter[str] = Counter()
_is_last = pytest.StashKey[bool]()
# What this process and its children had used up when the module began.
_used = {"before": 0.0}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, object, object]:
    if not _used["before"]:
        _used["before"] = _used_up()
    item.stash[_is_last] = nextitem is None or nextitem.path != item.path
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if call.when == "teardown" and item.stash[_is_last]:
        before, _used["before"] = _used["before"], _used_up()
        # What has ended without being waited for takes its part along.
        report.module_cpu = max(0.0, _used["before"] - before)  # type: ignore[attr-defined]
    return report


def _used_up() -> float:
    times = os.times()
    seconds = times.user + times.system + times.children_user + times.children_system
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            its = child.cpu_times()
            seconds += its.user + its.system + its.children_user + its.children_system
    return seconds


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    module = report.nodeid.partition("::")[0]
    _spent[module] += report.duration  # type: ignore[assignment]
    _cpu[module] += getattr(report, "module_cpu", 0.0)  # type: ignore[assignment]


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    cache: Any = getattr(config, "cache", None)
    for key, seconds in (("deltasql/durations", _spent), ("deltasql/cpu", _cpu)):
        if cache is not None:
            newest = {module: round(value, 1) for module, value in seconds.items()}
            cache.set(key, {**cache.get(key, {}), **newest})
    if config.get_verbosity() > 0:
        sums = f"{sum(_spent.values()):.0f} in all, {sum(_cpu.values()):.0f} of processors"
        terminalreporter.section(f"seconds by module, and of processors: {sums}")
        for module, value in _spent.most_common():
            terminalreporter.line(f"{value:8.1f} {_cpu[module]:8.1f} {module}")
