"""An adoption that was begun and not finished holds its place until somebody gives it up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deltasql
from deltasql.adoption.adopting import _Adoption
from deltasql.lake.table import Table
from tests.adoption.logs import METADATA, PROTOCOL, add, write_log


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    return write_log(tmp_path / "foreign", [PROTOCOL, METADATA, add("a")], [add("b")])


def cut_off(lake: Any, place: Path, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin an adoption that ends at a step, as when the database goes away."""

    def lost(*_: Any) -> None:
        raise deltasql.StoreError("the database went away")

    with monkeypatch.context() as patch:
        patch.setattr(_Adoption, step, lost)
        with pytest.raises(deltasql.StoreError, match="went away"):
            lake.adopt(str(place), "t", validate=False)


@pytest.mark.parametrize(
    ("step", "newest", "fenced"), [("settle", None, False), ("finish", 2, True)]
)
def test_given_up(any_lake, foreign, monkeypatch, step, newest, fenced):
    cut_off(any_lake, foreign, step, monkeypatch)
    files = sorted(foreign.rglob("*"))
    with pytest.raises(deltasql.LocationTakenError, match="within that of the table t") as caught:
        any_lake.create_table("u", pa.schema([("id", pa.int64())]), location=foreign / "within")
    assert "abandon_adoption" in caught.value.remedy
    given_up = any_lake.abandon_adoption(foreign)
    assert given_up == deltasql.AbandonedAdoption("t", foreign.as_uri(), newest, fenced)
    assert any_lake.store.staged_tables() == []
    assert any_lake.store.claims(foreign.as_uri()) == []
    assert sorted(foreign.rglob("*")) == files, "the table is as it was"
    with pytest.raises(deltasql.TableNotFoundError, match="no adoption was begun"):
        any_lake.abandon_adoption(foreign)
    assert any_lake.adopt(str(foreign), "t", validate=False).version == 2


def test_a_table_is_not_an_adoption(lake, tmp_path):
    table = lake.create_table("t", pa.schema([("id", pa.int64())]))
    with pytest.raises(deltasql.TableNotFoundError, match="no adoption"):
        lake.abandon_adoption(table.location)
    assert lake.table("t").version == 0


def test_it_asks_nothing_of_other_tables(lake, foreign, monkeypatch):
    """Whoever recovers a thousand tables would ask a million questions."""
    for number in range(30):
        lake.create_table(f"t{number}", pa.schema([("id", pa.int64())]))
    asked: list[int] = []
    real = lake.store.read_only_reason

    def count(table_id: int) -> str | None:
        asked.append(table_id)
        return real(table_id)

    monkeypatch.setattr(lake.store, "read_only_reason", count)
    assert isinstance(lake.adopt(str(foreign), "t", validate=False), Table)
    assert len(asked) < 10
