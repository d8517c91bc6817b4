from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from deltasql.errors import ConfigError, DeltaSqlError, StoreError, ValidationError
from deltasql.objectstore import ObjectNotFoundError, ObjectStore, open_store

KEYS = ["a", "p=a%3Ab/x", "a b/c d", "é/😈", "d/e/f.parquet"]


@pytest.fixture(params=["local", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    return open_store(str(tmp_path / "new" / "root") if request.param == "local" else "memory:///")


def test_objects_come_back(store: ObjectStore) -> None:
    for key in KEYS:
        store.put(key, key.encode())
    for key in KEYS:
        assert store.read(key) == key.encode()
        assert store.read(key, length=1) == key.encode()[:1]
        assert store.size(key) == len(key.encode())
        with store.open_input(key) as file:
            assert file.read() == key.encode()
    assert sorted(item.path for item in store.list()) == sorted(KEYS)
    assert [item.path for item in store.list("d/e")] == ["d/e/f.parquet"]
    assert store.read("d/e/f.parquet", offset=4) == b"f.parquet"
    assert store.read("d/e/f.parquet", offset=4, length=3) == b"f.p"
    store.delete([*KEYS, "absent"])
    assert list(store.list()) == []


@pytest.mark.parametrize("key", ["../a", "a/../b", "/a", "a//b", "", "a/./b", "a\0"])
def test_no_key_leaves_the_root(store: ObjectStore, key: str) -> None:
    for call in (lambda: store.put(key, b""), lambda: store.read(key), lambda: store.delete([key])):
        with pytest.raises(ValidationError):
            call()


def test_a_missing_object_is_named(store: ObjectStore) -> None:
    for call in (store.read, store.size, store.open_input):
        with pytest.raises(ObjectNotFoundError, match="x/y") as caught:
            call("x/y")
        assert isinstance(caught.value, FileNotFoundError)
        assert isinstance(caught.value, DeltaSqlError)
        assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_a_local_object_is_never_overwritten(tmp_path: Path) -> None:
    store = open_store(tmp_path.as_uri())
    store.put("a", b"1")
    with pytest.raises(StoreError, match="'a'"):
        store.put("a", b"2")
    assert store.read("a") == b"1"


def test_absolute_uris_are_resolved(tmp_path: Path) -> None:
    (tmp_path / "b c").write_bytes(b"1")
    for store in (open_store(str(tmp_path)), open_store("memory:///")):
        for uri in (f"file:{tmp_path}/b c", f"file://{tmp_path}/b c"):
            other, key = store.resolve(uri)
            assert other.read(key) == b"1"


def test_locations() -> None:
    assert open_store("file:///tmp/a%20b").location == "file:///tmp/a%20b"
    assert open_store("/tmp/a b").location == "file:///tmp/a%20b"
    for wrong in ("file://host/a", "file:a", "ftp://x/y"):
        with pytest.raises(ConfigError):
            open_store(wrong)


def test_credentials_stay_secret() -> None:
    options = {
        "access_key_id": "AKIA",
        "secret_access_key": "S3CRET",
        "endpoint": "http://127.0.0.1:1",
        "aws_allow_http": "true",
        "region": "us-east-1",
    }
    store = open_store("s3://bucket/prefix", options)
    assert "S3CRET" not in repr(store) + store.location
    assert store.location == "s3://bucket/prefix"
    with pytest.raises(ConfigError) as caught:
        open_store("s3://bucket/prefix", {"secret_access_key": "S3CRET", "no_such_key": "x"})
    assert "S3CRET" not in str(caught.value)
    other, key = store.resolve("s3a://elsewhere/k/x")
    assert (other.location, key) == ("s3a://elsewhere", "k/x")
