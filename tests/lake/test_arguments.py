"""Wrong types and values into every parameter of every public method: typed errors at most."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import deltasql
from deltasql.errors import DeltaSqlError, ValidationError
from deltasql.lake.looking import public
from deltasql.lake.mirror import LakeMirror, TableMirror

SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.string())])
ROWS = pa.table({"id": [1], "day": ["a"]}, schema=SCHEMA)
WITHIN_ITSELF: dict[str, Any] = {}
WITHIN_ITSELF["a"] = WITHIN_ITSELF
WRONG = [
    object(), 2**70, -(2**70), -1, float("nan"), float("inf"), True, None, "", "a\0b", "\ud800",
    b"x", [], [object()], "s3://[x/y", {}, {1: 2}, {"a": object()}, set(), lambda *_: None,
    10**5000, pa.array([1]), pa.array(["id"]), WITHIN_ITSELF,
]  # fmt: skip
# What a parameter may be, where it has no default.
PLAIN: dict[str, Any] = {
    "actions": [],
    "around": lambda store: store,
    "column": "day",
    "columns": ["id"],
    "comment": "x",
    "condition": "id > 0",
    "data": ROWS,
    "do": lambda: None,
    "end": "2027-01-01",
    "expression": "id > 0",
    "feature": "deletionVectors",
    "from_version": 0,
    "key": "k",
    "keys": ["k"],
    "kind": "long",
    "location": "somewhere",
    "name": "t",
    "on": "target.id = source.id",
    "source": ROWS,
    "names": ["id", "day"],
    "new_name": "u",
    "properties": {"k": "v"},
    "reason": "r",
    "schema": SCHEMA,
    "sources": ["elsewhere"],
    "start": "2026-01-01",
    "statement": "SELECT 1",
    "stop": "2027-01-01",
    "table": "t",
    "to": "u",
    "type": "long",
}
# Between modules of ours; they take what the types say, and mypy sees to it.
INTERNAL = {
    "Lake": {"create_with", "place"},
    "Table": {
        "abandon", "commit_request", "commit_write", "commit_written", "mirror_commit",
        "must_be_current", "parse_reads", "request", "request_for", "send", "snapshot_with",
    },
    "Snapshot": {"adds", "batches", "bind", "condition", "having", "held", "noting", "with_state"},
    "TransactionTable": {"abandon", "discard_files", "has_read", "request", "rests_on", "take"},
}  # fmt: skip


@pytest.fixture
def opened(tmp_path) -> Iterator[Callable[[], deltasql.Lake]]:
    """A lake with a table `t`, whatever the calls before have done to it."""
    url, location = f"sqlite:///{tmp_path / 'lake.db'}", str(tmp_path / "lake")
    with deltasql.connect(url, location=location, settings={"mirror.mode": "off"}) as lake:

        def ready() -> deltasql.Lake:
            with suppress(DeltaSqlError):
                lake.create_table("t", SCHEMA).append(ROWS)
            return lake

        yield ready


def _in_transaction(lake: deltasql.Lake, call: Callable[[Any], Any]) -> Any:
    with lake.transaction() as tx:
        return call(tx)


def _with_appender(lake: deltasql.Lake, call: Callable[[Any], Any]) -> Any:
    with lake.table("t").appender("1ms") as appender:
        return call(appender)


HOLDERS: dict[type, Callable[[deltasql.Lake, Callable[[Any], Any]], Any]] = {
    deltasql.Lake: lambda lake, call: call(lake),
    deltasql.Table: lambda lake, call: call(lake.table("t")),
    deltasql.Snapshot: lambda lake, call: call(lake.table("t").snapshot()),
    deltasql.Scan: lambda lake, call: call(lake.table("t").scan()),
    deltasql.Appender: _with_appender,
    deltasql.MergeBuilder: lambda lake, call: call(
        lake.table("t").merge(ROWS, "target.id = source.id")
    ),
    LakeMirror: lambda lake, call: call(lake.mirror),
    TableMirror: lambda lake, call: call(lake.table("t").mirror),
    deltasql.Transaction: _in_transaction,
    deltasql.TransactionTable: lambda lake, call: _in_transaction(
        lake, lambda tx: call(tx.table("t"))
    ),
}
METHODS = [
    (holder, name)
    for holder in HOLDERS
    for name, _ in inspect.getmembers(holder, inspect.isfunction)
    if not name.startswith("_")
    and name not in INTERNAL.get(holder.__name__, ())
    # It works until it is told to stop.
    and (holder, name) not in ((LakeMirror, "run"), (deltasql.Lake, "close"))
]


@pytest.mark.parametrize(
    ("holder", "name"), METHODS, ids=lambda value: getattr(value, "__name__", value)
)
def test_no_raw_error(holder, name, opened, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    parameters = list(inspect.signature(getattr(holder, name)).parameters.values())[1:]
    named = [item for item in parameters if item.kind is not item.VAR_KEYWORD]
    needed = {item.name: PLAIN[item.name] for item in named if item.default is item.empty}
    for parameter in named:
        for value in WRONG:
            given = {**needed, parameter.name: value}
            try:
                HOLDERS[holder](opened(), lambda found: _done(getattr(found, name)(**given)))  # noqa: B023
            except DeltaSqlError:
                continue
            except Exception as error:
                raise AssertionError(f"{name}({parameter.name}={_short(value)})") from error


# Values: their methods take actions and findings of ours.
VALUES = {"HistoryEntry", "RemoveFile", "TableCheck"}


def test_no_public_class_is_forgotten():
    found = {
        name
        for name in deltasql.__all__
        if inspect.isclass(kind := getattr(deltasql, name))
        and not issubclass(kind, BaseException)
        and any(
            not method.startswith("_") and len(inspect.signature(call).parameters) > 1
            for method, call in inspect.getmembers(kind, inspect.isroutine)
            if (getattr(call, "__module__", None) or "").startswith("deltasql")
        )
    }
    assert found - {holder.__name__ for holder in HOLDERS} <= VALUES


MAKERS = [
    made
    for made in (getattr(deltasql, name) for name in deltasql.__all__)
    if inspect.isfunction(made)
    or getattr(made, "__module__", None) == deltasql.WriterProperties.__module__
]


@pytest.mark.parametrize("maker", MAKERS, ids=lambda maker: maker.__name__)
def test_what_is_called_first_raises_nothing_raw(maker, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in inspect.signature(maker).parameters:
        for value in WRONG:
            given = {"url": "sqlite:///lake.db"} if maker is deltasql.connect else {}
            try:
                _done(maker(**given | {name: value}))
            except DeltaSqlError:
                continue
            except Exception as error:
                raise AssertionError(f"{maker.__name__}({name}={_short(value)})") from error


def _short(value: Any) -> str:
    # Python refuses to write down an integer of thousands of digits.
    return "10**5000" if value is WRONG[-4] else f"{value!r:.60}"


def _done(answer: Any) -> None:
    """What is done only when it is asked for is asked for."""
    if isinstance(answer, deltasql.MergeBuilder):
        answer.execute()
    elif isinstance(answer, deltasql.Scan):
        answer.to_arrow()
    elif isinstance(answer, AbstractContextManager):
        with answer:
            pass
    elif isinstance(answer, Iterator):
        next(answer, None)


def test_the_parameter_is_named(opened):
    table = opened().table("t")
    with pytest.raises(ValidationError, match=r"snapshot: version must be .*64-bit") as caught:
        table.snapshot(version=2**70)
    assert str(2**70) in caught.value.cause
    with pytest.raises(ValidationError, match=r"partition_by must be a list of strings"):
        opened().create_table("x", SCHEMA, partition_by=["day", 7])
    with pytest.raises(ValidationError, match=r"dry_run must be True or False"):
        table.vacuum(dry_run="no")


def test_names_may_come_from_a_frame(opened):
    """What is iterable again and again, and has no truth of its own."""
    table = opened().table("t")
    for names in (pd.Index(["id"]), pd.Series(["id", "day"]), np.array(["id", "day"])):
        assert table.scan(columns=names).to_arrow().column_names == list(names)
        merge = table.merge(ROWS, "target.id = source.id")
        merge.when_matched_update_all(except_cols=names[:1]).execute()
        merge.when_not_matched_insert_all(except_cols=names).execute()


def test_arguments_are_checked_by_place_as_by_name(opened):
    table = opened().table("t")
    for given in ((2**70,), (None, 7.5), ("a\0b",)):
        with pytest.raises(ValidationError, match=r"changes: "):
            table.changes(*given)
    with pytest.raises(TypeError):
        table.changes(0, 0, 0)


def test_only_what_is_between_our_modules_is_not_checked():
    for name, method in inspect.getmembers(deltasql.Table, inspect.isfunction):
        if not name.startswith("_") and not hasattr(method, "__wrapped__"):
            assert name in INTERNAL["Table"]
            assert name not in public.TABLE
