"""Every database passes the contract of a log store."""

from collections.abc import Callable, Iterator

import pytest

from deltasql.store.connect import open_log
from deltasql.store.interface import LogStore
from deltasql.testing import LogStoreContract


@pytest.fixture
def log_store(store_url: str) -> Iterator[Callable[[], LogStore]]:
    opened: list[LogStore] = []

    def open_store() -> LogStore:
        opened.append(open_log(store_url, timeout=20))
        return opened[-1]

    yield open_store
    for store in opened:
        store.close()


class TestLogStore(LogStoreContract):
    pass
