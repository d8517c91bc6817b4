"""Which of pytest's workers runs what, and in which order.

A module stays on one worker, for the servers that its tests share. Modules of tests/spark go to
either worker, each of which has one Spark session for all of them: a second JVM to start, and no
worker that waits for the other. Those of tests/readers stay together, for theirs. What takes long
begins first, so that no worker is left alone with it.

xdist's own groups need `item._nodeid`, which pytest 9.2 does not have any more: they are passed
over without a word.
"""

from __future__ import annotations

from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

_TOGETHER = ("tests/readers/",)
# The longest modules, longest first, and then the folders in which modules take long.
_FIRST = (
    "tests/spark/sql/test_statements.py",
    "tests/readers/",
    "tests/spark/test_dml.py",
    "tests/spark/test_huge_logs.py",
    "tests/packaging/test_examples.py",
    "tests/spark/test_stream_failures.py",
    "tests/docs/test_pages.py",
    "tests/spark/test_routes.py",
    "tests/spark/test_versions.py",
    "tests/cli/test_interrupts.py",
    "tests/spark/test_first_hour.py",
    "tests/spark/",
    "tests/faults/",
    "tests/mirror/",
    "tests/cli/",
    "tests/store/",
    "tests/lake/",
    "tests/maintenance/",
)


class ByModule(LoadScopeScheduling):
    """Hands out whole modules, or groups of them."""

    def _split_scope(self, nodeid: str) -> str:
        module = nodeid.partition("::")[0]
        return next((group for group in _TOGETHER if module.startswith(group)), module)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByModule:
    return ByModule(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: _place(item.nodeid))


def _place(nodeid: str) -> int:
    found = (place for place, start in enumerate(_FIRST) if nodeid.startswith(start))
    return next(found, len(_FIRST))
