"""Contract suites that every implementation of an interface must pass.

    from deltasql.testing import LogStoreContract

    class TestMyStore(LogStoreContract):
        @pytest.fixture
        def log_store(self): ...

Needs pytest and hypothesis.
"""

from deltasql.testing.log_store import LogStoreContract

__all__ = ["LogStoreContract"]
