"""What the contract of a log store asks for."""

from collections.abc import Callable, Iterator

import pytest

from deltasql.store.connect import open_log
from deltasql.store.interface import LogStore


@pytest.fixture
def log_store(store_url: str) -> Iterator[Callable[[], LogStore]]:
    """Opens stores, all on one database."""
    opened: list[LogStore] = []

    def open_store() -> LogStore:
        opened.append(open_log(store_url, timeout=20))
        return opened[-1]

    yield open_store
    for store in opened:
        store.close()
