"""The store that fails does so as told, and the same way every time."""

import pytest

from deltasql.errors import StoreError
from deltasql.objectstore import open_store
from deltasql.testing.faulty_store import Call, Fault, FaultyStore, fits, scripted, seeded


@pytest.fixture
def inner():
    return open_store("memory:///")


def test_an_error_before_leaves_nothing(inner):
    store = FaultyStore(inner, scripted([Fault.BEFORE]))
    with pytest.raises(StoreError, match="injected") as caught:
        store.put_if_absent("a", b"1")
    assert caught.value.is_transient
    assert inner.head("a") is None
    assert store.put_if_absent("a", b"1")


@pytest.mark.parametrize("verb", ["put", "put_if_absent", "put_if_match", "open_output"])
def test_an_error_after_leaves_the_object(inner, verb):
    store = FaultyStore(inner, scripted({0: Fault.AFTER}))

    def write():
        match verb:
            case "put_if_match":
                store.put_if_match("a", b"1", None)
            case "open_output":
                with store.open_output("a") as sink:
                    sink.write(b"1")
            case _:
                getattr(store, verb)("a", b"1")

    with pytest.raises(StoreError):
        write()
    assert inner.read("a") == b"1"
    assert store.calls == [Call(0, verb, "a", Fault.AFTER)]


def test_exists_for_our_own_bytes(inner):
    store = FaultyStore(inner, lambda _: Fault.EXISTS)
    assert store.put_if_absent("a", b"1") is False
    assert store.put_if_match("b", b"1", None) is False
    with store.open_output("c") as sink:
        sink.write(b"1")
    assert sink.created is False
    assert [inner.read(key) for key in "abc"] == [b"1"] * 3


def test_many_puts_fail_in_the_middle(inner):
    store = FaultyStore(inner, scripted([None, Fault.AFTER]))
    put = store.put_many_if_absent([(key, b"1") for key in "abc"])
    assert put.count == 1
    assert put.failure.is_transient
    assert [info.path for info in inner.list()] == ["a", "b"]


def test_reads_and_listings_come_short(inner):
    inner.put("a", b"0123456789")
    inner.put("b", b"")
    store = FaultyStore(inner, lambda _: Fault.TRUNCATED_READ)
    assert store.read("a") == b"01234"
    assert store.read_tagged("a")[0] == b"01234"
    assert store.open_input("a").read() == b"01234"
    assert store.read_tagged("absent") is None
    assert len(list(store.list())) == 2
    assert [call.verb for call in store.injected] == [
        "read",
        "read_tagged",
        "open_input",
        "read_tagged",
    ]
    store.schedule = scripted({len(store.calls): Fault.PARTIAL_LIST})
    assert [info.path for info in store.list()] == ["a"]


def test_slow_calls_sleep(inner):
    slept = []
    store = FaultyStore(inner, lambda _: Fault.SLOW, delay=3, sleep=slept.append)
    store.put("a", b"1")
    assert store.head("a").size == 1
    assert slept == [3, 3]


def test_a_seed_repeats_itself(inner):
    def faults(seed):
        schedule = seeded(seed, rate=0.5)
        verbs = ["put_if_absent", "read", "list", "head", "open_output"] * 40
        return [schedule(Call(number, verb, "a")) for number, verb in enumerate(verbs)]

    first = faults(1)
    assert first == faults(1) != faults(2)
    assert set(first) == {*Fault, None}
    assert 60 < len([fault for fault in first if fault]) < 140
    assert all(fits(fault, "read") for fault in first[1::5] if fault)
    assert faults(1)[1::5] == first[1::5]
