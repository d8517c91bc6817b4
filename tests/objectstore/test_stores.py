from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from deltasql.errors import ConfigError, DeltaSqlError, StoreError, ValidationError
from deltasql.objectstore import ObjectNotFoundError, ObjectStore, open_store
from deltasql.objectstore.sources import Sources
from deltasql.places import place_of

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
    store = open_store(str(tmp_path))
    for uri in (f"file:{tmp_path}/b%20c", f"FILE://{tmp_path}/b%20c"):
        other, key = store.resolve(uri)
        assert other.read(key) == b"1"


def test_absolute_uris_lead_only_into_sources(tmp_path: Path) -> None:
    for name in ("table", "source/p=1", "secret"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "f").write_bytes(name.encode())
    (tmp_path / "source" / "link").symlink_to(tmp_path / "secret")
    (tmp_path / "source" / "file").symlink_to(tmp_path / "secret" / "f")
    sources = Sources(lambda: [place_of(str(tmp_path / "source"))])
    store = open_store(str(tmp_path / "table"), {}, sources)
    other, key = store.resolve((tmp_path / "source/p=1/f").as_uri())
    assert other.read(key) == b"source/p=1"
    for path in ("secret/f", "source/link/f", "sourceless/f", "f"):
        with pytest.raises(ValidationError, match="allow"):
            store.resolve((tmp_path / path).as_uri())
    other, key = store.resolve((tmp_path / "source/file").as_uri())
    with pytest.raises(StoreError, match="link"):
        other.read(key)
    for uri in ("s3://bucket/f", "memory:///f"):
        with pytest.raises(ValidationError, match="another kind"):
            store.resolve(uri)
    remote = open_store("s3://here/t", {"s3.region": "x"}, Sources(lambda: ["s3://there/k/"]))
    other, key = remote.resolve("s3a://there/k/a%20b")
    assert (other.location, key) == ("s3a://there", "k/a b")
    assert remote.resolve("s3://here/t/x") == (remote, "x")
    for uri in ("s3://there/x", "s3://there/kk/x", "s3://here/x", "file:///etc/passwd", "az://k/x"):
        with pytest.raises(ValidationError):
            remote.resolve(uri)
    azure = open_store("abfss://c@mine.dfs.core.windows.net/t", {"azure.account_name": "mine"})
    with pytest.raises(ValidationError):
        azure.resolve("abfss://c@theirs.dfs.core.windows.net/t/x")


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
    for wrong in ("file://u:S3CRET@host/a", "ftp://u:S3CRET@host/a", "xy://u:S3CRET@h?S3CRET=1"):
        with pytest.raises(ConfigError) as caught:
            open_store(wrong)
        assert "S3CRET" not in str(caught.value)
