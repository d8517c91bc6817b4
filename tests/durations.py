"""How long each module takes, setup and teardown included: kept in pytest's cache, shown by `-v`.

`.pytest_cache/v/deltasql/durations` has the newest figure of each module, in seconds.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

_KEY = "deltasql/durations"
_spent: Counter[str] = Counter()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _spent[report.nodeid.partition("::")[0]] += report.duration  # type: ignore[assignment]


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    cache: Any = getattr(config, "cache", None)
    if cache is not None:
        newest = {module: round(seconds, 1) for module, seconds in _spent.items()}
        cache.set(_KEY, {**cache.get(_KEY, {}), **newest})
    if config.get_verbosity() > 0:
        terminalreporter.section(f"seconds by module, {sum(_spent.values()):.0f} in all")
        for module, seconds in _spent.most_common():
            terminalreporter.line(f"{seconds:8.1f} {module}")
