"""Every database passes the contract of a log store."""

import inspect
from pathlib import Path

import deltasql.testing
from deltasql.store.checking.interface import RebuildLog
from deltasql.store.interface import LockedLog, LogStore
from deltasql.testing import LogStoreContract


class TestLogStore(LogStoreContract):
    pass


def test_the_contract_calls_every_method_of_the_seam():
    folder = Path(deltasql.testing.__file__).parent
    text = "".join(path.read_text("utf-8") for path in folder.rglob("*.py"))
    seams = [LogStore, LockedLog, RebuildLog]
    names = {
        name
        for seam in seams
        for part in seam.__mro__
        if part.__module__.startswith("deltasql")
        for name, value in vars(part).items()
        if inspect.isfunction(value) and not name.startswith("_")
    }
    assert len(names) > 60
    assert [name for name in sorted(names) if f".{name}(" not in text] == []
