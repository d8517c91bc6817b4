"""Which of pytest's workers runs what, and in which order.

A module stays on one worker, for the servers that its tests share. All modules that use the Spark
session of tests/spark stay together, those of tests/spark/sql apart from the rest so that both
workers have some, and so do those of tests/readers: a JVM takes 10 s to start and much longer to
warm up. What takes long begins first, so that no worker is left alone with it.

xdist's own groups need `item._nodeid`, which pytest 9.2 does not have any more: they are passed
over without a word.
"""

from __future__ import annotations

from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

_TOGETHER = ("tests/spark/sql/", "tests/spark/", "tests/readers/")
# Spark in processes of their own, without the session.
_APART = tuple(
    f"tests/spark/test_{name}.py"
    for name in ("cluster", "connect", "jars", "stream_failures", "transfers", "versions")
)
_FIRST = (
    "tests/spark/sql/",
    "tests/spark/",
    "tests/readers/",
    "tests/faults/",
    "tests/docs/",
    "tests/packaging/",
)


class ByModule(LoadScopeScheduling):
    """Hands out whole modules, or groups of them."""

    def _split_scope(self, nodeid: str) -> str:
        module = nodeid.partition("::")[0]
        if module in _APART:
            return module
        return next((group for group in _TOGETHER if module.startswith(group)), module)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByModule:
    return ByModule(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: _place(item.nodeid))


def _place(nodeid: str) -> tuple[int, bool]:
    folders = (place for place, folder in enumerate(_FIRST) if nodeid.startswith(folder))
    return next(folders, len(_FIRST)), nodeid.partition("::")[0] in _APART
