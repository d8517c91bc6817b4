"""What a table keeps to itself: values spelt one way, identity marks, the fence; and its errors."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

import deltasql
from deltasql.errors import ValidationError
from deltasql.lake.table import Table
from deltasql.maintenance.restoring import plan
from deltasql.spec.actions import Metadata
from deltasql.spec.schema import parse_schema, render_schema
from tests.maintenance.judges import seen_by_all
from tests.maintenance.tables import SCHEMA, folder, ids, rows

MODE = "delta.columnMapping.mode"


@pytest.fixture
def lake(sqlite_url: str, tmp_path: Path):
    with deltasql.connect(sqlite_url, location=str(tmp_path / "lake")) as opened:
        yield opened


# --- values of properties -----------------------------------------------------------------


def _created(lake: deltasql.Lake, key: str, value: str) -> Table:
    return lake.create_table("a.t", SCHEMA, properties={key: value})


def _altered(lake: deltasql.Lake, key: str, value: str) -> Table:
    table = lake.create_table("a.t", SCHEMA)
    table.set_properties({key: value})
    return table


def _committed(lake: deltasql.Lake, key: str, value: str) -> Table:
    table = lake.create_table("a.t", SCHEMA)
    table.set_properties({key: value.lower()})
    found = table.snapshot().metadata
    configuration = {**found.configuration, key: value, "color": "Red"}
    table.commit([replace(found, configuration=configuration)])
    return table


@pytest.mark.parametrize("way", [_created, _altered, _committed])
@pytest.mark.parametrize(
    ("key", "value"),
    [
        (MODE, "NAME"),
        (MODE, "Name"),
        ("delta.checkpointPolicy", "V2"),
        ("delta.enableChangeDataFeed", "TRUE"),
        ("delta.appendOnly", "False"),
    ],
)
def test_values_are_stored_as_delta_spells_them(
    lake: deltasql.Lake, way: Callable[[deltasql.Lake, str, str], Table], key: str, value: str
):
    table = way(lake, key, value)
    table.append(rows(1))
    assert table.snapshot().properties[key] == value.lower()
    assert [row["id"] for row in seen_by_all(lake, table)] == [1]


def test_what_adopted_tables_say_is_understood(lake: deltasql.Lake, tmp_path: Path):
    made = lake.create_table("a.t", SCHEMA, properties={MODE: "id", "deltasql.fence": "false"})
    made.append(rows(1))
    made.rename_column("id", "number")
    place = tmp_path / "adopted"
    shutil.copytree(folder(made), place)
    for commit in (place / "_delta_log").glob("*.json"):
        commit.write_text(commit.read_text().replace(f'"{MODE}":"id"', f'"{MODE}":"Id"'))
    for other in (place / "_delta_log").glob("*.crc"):
        other.unlink()
    adopted = lake.adopt(str(place), "a.adopted")
    assert adopted.snapshot().properties[MODE] == "Id"
    assert adopted.scan().to_arrow().column("number").to_pylist() == [1]
    adopted.append(rows(2).rename_columns(["number", "day"]))
    adopted.rename_column("day", "when")
    assert adopted.snapshot().properties[MODE] == "id", "spelt right as soon as it is written"
    assert sorted(adopted.scan().to_arrow().column("number").to_pylist()) == [1, 2]


# --- restore --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "then", "now", "kept"),
    [
        (1, 5, 9, 9),
        (1, None, 9, 9),
        (-1, -5, -9, -9),
        (-2, 3, -9, -9),
        (1, 9, 5, 9),
        (1, 5, None, 5),
    ],
)
def test_identity_columns_go_on_after_a_restore(
    lake: deltasql.Lake, step: int, then: int | None, now: int | None, kept: int
):
    table = lake.create_table("a.t", SCHEMA)
    state = table.snapshot().state

    def at(mark: int | None):
        schema = state.schema
        said: dict[str, object] = {"delta.identity.start": 1, "delta.identity.step": step}
        if mark is not None:
            said["delta.identity.highWaterMark"] = mark
        fields = (replace(schema.fields[0], metadata=said), *schema.fields[1:])
        text = render_schema(replace(schema, fields=fields))
        return replace(state, metadata=replace(state.metadata, schema_string=text))

    found = plan(
        now=at(now),
        then=replace(at(then), version=0),
        files_now=(),
        files_then=(),
        domains_now={},
        domains_then={},
        deletion_timestamp=1,
    )
    (metadata,) = [item for item in found.actions if isinstance(item, Metadata)] or [
        at(now).metadata
    ]
    field = parse_schema(metadata.schema_string).fields[0]
    assert field.metadata["delta.identity.highWaterMark"] == kept


# --- the fence --------------------------------------------------------------------------------


def test_the_fence_is_settled_with_the_table(lake: deltasql.Lake):
    table = lake.create_table("a.t", SCHEMA)
    with pytest.raises(ValidationError, match="the table has a fence"):
        table.set_properties({"deltasql.fence": "false"})
    table.set_properties({"deltasql.fence": "TRUE"})
    free = lake.create_table("a.free", SCHEMA, properties={"deltasql.fence": "FALSE"})
    for wrong in (
        lambda: free.set_properties({"deltasql.fence": "true"}),
        lambda: free.unset_properties(["deltasql.fence"]),
    ):
        with pytest.raises(ValidationError, match=r"deltasql\.fence can't be changed"):
            wrong()
    assert "deltasql" in (table.clone("a.c").snapshot().protocol.writer_features or ())
    assert "deltasql" not in (free.clone("a.d").snapshot().protocol.writer_features or ())


# --- errors -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda t: t.restore(version=10**30), "version"),
        (lambda t: t.snapshot(version="1"), "version"),
        (lambda t: t.vacuum([]), "retention"),
        (lambda t: t.vacuum(0, clock_margin=5), "clock_margin"),
        (lambda t: t.pin(ttl=timedelta.max).__enter__(), "ttl"),
        (lambda t: t.set_properties(None), "properties"),
        (lambda t: t.set_properties({1: "x"}), "properties"),
        (lambda t: t.set_properties({"x": None}), "propert"),
        (lambda t: t.add_column("z", None), "type"),
        (lambda t: t.add_columns(5), "schema"),
        (lambda t: t.widen_type("id", None, enable_type_widening=True), "type"),
        (lambda t: t.rename_column("id", None), "new_name"),
        (lambda t: t.set_comment("x", 7), "column"),
        (lambda t: t.unset_properties("color"), "keys"),
    ],
)
def test_wrong_arguments_are_told_by_name(
    lake: deltasql.Lake, call: Callable[[Table], object], name: str
):
    table = lake.create_table("a.t", SCHEMA, properties={MODE: "name"})
    table.append(rows(1))
    with pytest.raises(ValidationError, match=name):
        call(table)
    assert ids(table.scan().to_arrow()) == [1]
