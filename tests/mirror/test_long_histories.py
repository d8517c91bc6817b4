"""Long histories: what is compared with the mirror is not held version by version."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from deltasql.delta_log.names import LOG, commit_name
from deltasql.mirror.validation.digests import CommitDigests, commit_digests, differing
from deltasql.objectstore.store import open_store
from deltasql.store.connect import open_log
from deltasql.testing.proposals import add, commit, create

BODY = b'{"commitInfo":{}}\n'
NO_FILE = sha256(b"").digest()


class OneFile:
    """A log whose commit files are all alike, but one."""

    def read(self, path: str) -> bytes:
        return b"other" if path == LOG + commit_name(700) else BODY

    def size(self, path: str) -> int:
        return len(self.read(path))


def digests(count: int) -> Iterator[tuple[int, bytes]]:
    return ((version, sha256(BODY).digest()) for version in range(count))


def peak(count: int) -> int:
    tracemalloc.start()
    try:
        found = CommitDigests(digests(count))
        assert differing(OneFile(), found, found) == [700]  # type: ignore[arg-type]
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_comparison_holds_few_bytes_of_a_version():
    # A digest and a number each; it was a record of history and a future.
    growth = (peak(22_000) - peak(2_000)) / 20_000
    assert growth < 150


def test_digests_are_a_mapping():
    found = CommitDigests([(3, b"a" * 32), (4, NO_FILE), (6, b"b" * 32), (7, b"short")])
    assert dict(found) == {3: b"a" * 32, 6: b"b" * 32, 7: b"short".ljust(32, b"\0")}
    assert len(found) == 3
    assert [version in found for version in range(9)] == [
        False, False, False, True, False, False, True, True, False
    ]  # fmt: skip
    assert not CommitDigests([])
    with pytest.raises(KeyError):
        found[-1]


def test_digests_come_in_pages(store_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr("deltasql.store.checking.queries._DIGESTS", 3)
    store = open_log(store_url)
    table_id = create(store)
    other = create(store, "t.other")
    for number in range(7):
        commit(store, table_id, add(str(number)))
    expected = {record.version: record.digest for record in store.history(table_id)}
    assert dict(commit_digests(store, table_id)) == expected
    assert len(expected) == 8
    assert list(commit_digests(store, other)) == [0]
    assert differing(open_store(str(tmp_path)), {}, []) == []
    store.close()
