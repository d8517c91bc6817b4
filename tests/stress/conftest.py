"""The SQL log by itself: what the mirror does with it is tested elsewhere."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="package", autouse=True)
def _no_mirror() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as environment:
        # By the environment, which the writers' processes inherit.
        environment.setenv("DELTASQL_MIRROR_MODE", "off")
        yield
