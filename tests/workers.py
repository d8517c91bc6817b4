"""Which of pytest's workers runs what: a module stays on one, for the servers and the Spark session
that its tests share. So do all modules of readers, which share a JVM.

xdist's own groups need `item._nodeid`, which pytest 9.2 does not have any more: they are passed
over without a word.
"""

from __future__ import annotations

from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

_TOGETHER = "tests/readers/"


class ByModule(LoadScopeScheduling):
    """Hands out whole modules."""

    def _split_scope(self, nodeid: str) -> str:
        module = nodeid.partition("::")[0]
        return _TOGETHER if module.startswith(_TOGETHER) else module


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByModule:
    return ByModule(config, log)
