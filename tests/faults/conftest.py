"""The SQL log by itself: what the mirror does with it is tested elsewhere."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _no_mirror(monkeypatch: pytest.MonkeyPatch) -> None:
    # By the environment, which the writers' processes inherit.
    monkeypatch.setenv("DELTASQL_MIRROR_MODE", "off")
