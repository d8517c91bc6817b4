"""What only a network can do: lost responses, servers that are down, keys that are wrong."""

import pickle
import socket
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from deltasql.errors import StoreError
from deltasql.objectstore import ObjectNotFoundError, PutChain, open_store

QUICK = {"s3.max_retries": 1, "s3.timeout": "1s", "s3.connect_timeout": "1s"}


def _writes(store):
    def output():
        with store.open_output("a") as sink:
            sink.write(b"1")

    return [
        lambda: store.put("a", b"1"),
        lambda: store.put_if_absent("a", b"1"),
        lambda: store.put_if_match("a", b"1", '{"e_tag": "\\"x\\""}'),
        lambda: _raised(store.put_many_if_absent([("a", b"1")])),
        output,
    ]


def _raised(put):
    raise put.failure


def _reads(store):
    return [
        lambda: store.read("a"),
        lambda: store.head("a"),
        lambda: store.read_tagged("a"),
        lambda: list(store.list()),
        lambda: store.remove_stale_temps("", 0),
    ]


@contextmanager
def _answering(answer: bytes) -> Iterator[int]:
    """A server with one answer to everything; with b"" it never answers."""
    server = socket.create_server(("127.0.0.1", 0))
    held = []

    def serve() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            held.append(connection)
            if answer:
                connection.recv(65536)
                connection.sendall(answer)
                connection.close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield server.getsockname()[1]
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        for connection in held:
            connection.close()


def _at(port: int):
    options = {
        "s3.endpoint": f"http://127.0.0.1:{port}",
        "s3.allow_http": True,
        "s3.region": "us-east-1",
        "s3.access_key_id": "AKIA",
        "s3.secret_access_key": "S3CRET-VALUE",
    }
    return open_store("s3://bucket/prefix", options | QUICK)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Le",
    ],
)
def test_a_server_in_trouble_is_transient(answer):
    with _answering(answer) as port:
        store = _at(port)
        for call in _writes(store)[:2] + _reads(store)[:2]:
            with pytest.raises(StoreError) as caught:
                call()
            assert caught.value.is_transient, caught.value


def test_a_server_that_never_answers_is_transient():
    with _answering(b"") as port, pytest.raises(StoreError) as caught:
        _at(port).put_if_absent("a", b"1")
    assert caught.value.is_transient


def test_no_server_is_transient():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    store = _at(port)
    for call in _writes(store) + _reads(store):
        with pytest.raises(StoreError) as caught:
            call()
        assert caught.value.is_transient
        assert "S3CRET" not in str(caught.value)
        assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    put = store.put_many_if_absent([("a", b"1"), ("b", b"2")])
    assert put.count == 0
    assert put.failure.is_transient


def test_wrong_keys_are_not_transient_and_say_what_to_do(seaweedfs):
    options = seaweedfs.options() | {"s3.secret_access_key": "S3CRET-VALUE"}
    store = open_store(seaweedfs.location("x"), options)
    for call in _writes(store) + _reads(store):
        with pytest.raises(StoreError, match=r"docs/permissions\.md") as caught:
            call()
        assert not caught.value.is_transient
        assert "S3CRET" not in str(caught.value)
        assert "Signature" not in caught.value.cause.replace("SignatureDoesNotMatch", "")


def test_an_absent_container_is_not_an_absent_object(azurite):
    store = open_store(azurite.location("x").replace("lake", "elsewhere"), azurite.options())
    for call in _writes(store)[:4] + _reads(store)[2:4]:
        with pytest.raises(StoreError, match="create the bucket or container") as caught:
            call()
        assert not isinstance(caught.value, ObjectNotFoundError)
        assert not caught.value.is_transient


def test_a_lost_response_leaves_our_bytes_for_the_read_back(seaweedfs, toxiproxy):
    proxy = toxiproxy.proxy(f"s3_{uuid.uuid4().hex}", seaweedfs.port)
    root = seaweedfs.location(str(uuid.uuid4()))
    store = open_store(root, seaweedfs.options(proxy.port) | QUICK)
    try:
        with proxy.toxic("limit_data", bytes=0), pytest.raises(StoreError) as caught:
            store.put_if_absent("a", b"mine")
        assert caught.value.is_transient
        assert store.put_if_absent("a", b"mine") is False
        assert store.read("a") == b"mine"
        proxy.disable()
        with pytest.raises(StoreError) as caught:
            store.read("a")
        assert caught.value.is_transient
    finally:
        proxy.delete()


def test_acknowledged_objects_survive_a_killed_server(private_seaweedfs):
    store = open_store(private_seaweedfs.location("x"), private_seaweedfs.options() | QUICK)
    keys = [f"{number:03}" for number in range(20)]
    assert store.put_many_if_absent([(key, key.encode()) for key in keys]) == PutChain(len(keys))
    private_seaweedfs.kill()
    with pytest.raises(StoreError):
        store.read(keys[0])
    private_seaweedfs.start()
    assert [store.read(key) for key in keys] == [key.encode() for key in keys]
    assert store.put_if_absent(keys[0], b"other") is False


def test_encryption_reaches_the_server(seaweedfs):
    key = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
    encrypted = {"s3.sse": "sse-c", "s3.sse_customer_key_base64": key}
    root = seaweedfs.location(str(uuid.uuid4()))
    store = open_store(root, seaweedfs.options() | encrypted)
    assert store.put_if_absent("a", b"1" * 1000)
    assert store.put_if_absent("a", b"2") is False
    assert store.read("a") == b"1" * 1000
    with pytest.raises(StoreError):
        open_store(root, seaweedfs.options()).read("a")


def test_the_usual_variables_are_enough(seaweedfs, monkeypatch):
    given = seaweedfs.options()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", given["s3.access_key_id"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", given["s3.secret_access_key"])
    monkeypatch.setenv("AWS_ENDPOINT_URL", given["s3.endpoint"])
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    assert open_store(seaweedfs.location(str(uuid.uuid4()))).put_if_absent("a", b"1")
