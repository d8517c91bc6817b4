"""An answer of the store that breaks off without an error makes nobody a foreign writer."""

from __future__ import annotations

import pytest

from deltasql.delta_log.names import LOG, commit_name
from deltasql.errors import StoreError
from deltasql.mirror.validation.sampling import sample
from deltasql.testing.faulty_store import Call, Fault, FaultyStore
from tests.mirror.conftest import rows, statuses


def _cut(lake, table, *, answers_lost: bool = False) -> FaultyStore:
    """The table's store: what is read of commit files breaks off, and answers may get lost."""

    def schedule(call: Call) -> Fault | None:
        if call.path.startswith(LOG) and call.path.endswith(".json"):
            if call.verb == "read":
                return Fault.TRUNCATED_READ
            if answers_lost and call.verb == "put_if_absent":
                return Fault.EXISTS
        return None

    store = FaultyStore(lake.objects(table.location), schedule)
    lake.objects.use(table.location, store)
    return store


@pytest.mark.parametrize("is_own", [False, True])
def test_a_commit_file_that_was_read_in_part_is_tried_again(open_lake, make_table, is_own):
    """That of the version before, which another process wrote, or one whose answer was lost."""
    lake = open_lake(mode="async", retry_backoff_base="1ms", max_retry_attempts="100")
    other = lake if is_own else open_lake(mode="async")
    make_table(other, 3)
    table = lake.table("t")
    store = _cut(lake, table, answers_lost=is_own)
    table.append(rows(4))
    with pytest.raises(StoreError, match="can't read the object"):
        lake.engine.catch_up(table.target)
    (status,) = (item for version, item in statuses(table).items() if version == 4)
    assert any(call.fault is Fault.TRUNCATED_READ for call in store.calls)
    assert "it ended after" in (status.error_message or "")
    assert status.status == "PENDING", "nothing that a retry can't mend"
    store.schedule = lambda _: None
    lake.mirror.run(once=True)
    assert table.mirror.status().lag_versions == 0
    assert table.mirror.validate().ok


def test_neither_validation_nor_a_sample_reports_drift(open_lake, make_table):
    lake = open_lake(mode="async")
    table = make_table(lake, 3)
    _cut(lake, table)
    with pytest.raises(StoreError, match="can't read the object"):
        table.mirror.validate()
    found = sample(lake.store, lake.objects(table.location), table.target)
    assert found.digest_mismatches == []
    assert "it ended after" in (found.error or "")


def test_a_file_that_is_shorter_is_still_told_as_such(open_lake, make_table):
    """What is there as a whole, and is not ours, differs."""
    lake = open_lake(mode="async")
    table = make_table(lake, 3)
    path = LOG + commit_name(2)
    body = table.objects.read(path)
    table.objects.delete([path])
    table.objects.put(path, body[:-5])
    assert table.mirror.validate().digest_mismatches == [2]
    assert sample(lake.store, table.objects, table.target).digest_mismatches == [2]
