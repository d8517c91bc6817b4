"""Which of pytest's workers runs what, and in which order.

There is a worker more than the machine has cores: tests of faults wait most of the time, for
timeouts and for servers. A module stays on one worker, for the servers that its tests share.
Modules of tests/spark go to the first two, each of which has one Spark session for all of them;
another JVM would take longer to get going than it saves. Those of tests/readers stay together, for
theirs. What takes long begins first, so that no worker is left alone with it.

xdist's own groups need `item._nodeid`, which pytest 9.2 does not have any more: they are passed
over without a word.
"""

from __future__ import annotations

from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

_TOGETHER = ("tests/readers/",)
_SPARK = "tests/spark/"
_SPARKS = 2
# The longest modules, longest first, and then the folders in which modules take long.
_FIRST = (
    "tests/spark/sql/test_statements.py",
    "tests/spark/plugin/test_process.py",
    "tests/spark/test_dml.py",
    "tests/spark/test_huge_logs.py",
    "tests/spark/test_stream_failures.py",
    "tests/spark/test_routes.py",
    "tests/spark/",
    "tests/readers/",
    "tests/packaging/test_examples.py",
    "tests/docs/test_pages.py",
    "tests/cli/test_interrupts.py",
    "tests/faults/test_matrix.py",
    "tests/faults/",
    "tests/serve/",
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

    def _assign_work_unit(self, node: Any) -> None:
        found = next((scope for scope in self.workqueue if self._may_have(node, scope)), None)
        if found is None:
            # As for the others when nothing is left.
            node.shutdown()
            return
        self.workqueue.move_to_end(found, last=False)
        super()._assign_work_unit(node)

    def _may_have(self, node: Any, scope: str) -> bool:
        return not scope.startswith(_SPARK) or node in self.nodes[:_SPARKS]


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByModule:
    return ByModule(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: _place(item.nodeid))


def _place(nodeid: str) -> int:
    found = (place for place, start in enumerate(_FIRST) if nodeid.startswith(start))
    return next(found, len(_FIRST))
