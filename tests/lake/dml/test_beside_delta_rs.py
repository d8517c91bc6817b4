"""What users of delta-rs do, on both: the same rows, schemas, changes and counts of rows.

Each case is the call of one side and the same call of the other; where the two mean different
things, `docs/coming-from.md` says why, and no case is here.
"""

from __future__ import annotations

import datetime as dt
import itertools
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

import deltasql
from tests.sizes import each_value

DAY = dt.date(2024, 5, 6)
ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3, 4], pa.int64()),
        "p": ["a", "a", "b", None],
        "n": pa.array([10, 20, None, 40], pa.int32()),
        "x": [1.5, None, 3.5, 4.5],
        "day": [DAY, DAY + dt.timedelta(1), None, DAY],
        "ok": [True, False, None, True],
        "m": pa.array(
            [Decimal("1.10"), None, Decimal("3.30"), Decimal("4.40")], pa.decimal128(8, 2)
        ),
    }
)
MORE = pa.table({"id": pa.array([3, 4, 5, 6], pa.int64()), "p": ["b", "c", "c", None],
                 "n": pa.array([33, None, 55, 66], pa.int32())})  # fmt: skip
PARTITIONS = ((), ("p",))
NUMBERS = itertools.count()


@dataclass(frozen=True)
class Both:
    """The same table on both sides."""

    lake: deltasql.Lake
    name: str
    path: str

    @property
    def ours(self) -> deltasql.Table:
        return self.lake.table(self.name)

    @property
    def theirs(self) -> DeltaTable:
        return DeltaTable(self.path)

    def same(self) -> list[dict[str, Any]]:
        """The rows, which are the same on both sides."""
        mine = self.ours.scan().to_arrow()
        other = _arrow(self.theirs)
        # A merged schema of delta-rs has the partition columns last.
        assert sorted(mine.column_names) == sorted(other.column_names)
        other = other.select(mine.column_names)
        assert _sorted(mine) == _sorted(other)
        return _sorted(mine)


def _arrow(table: DeltaTable) -> pa.Table:
    return pa.table(deltalake.QueryBuilder().register("t", table).execute("SELECT * FROM t"))


def _sorted(rows: pa.Table) -> list[dict[str, Any]]:
    return sorted(rows.to_pylist(), key=repr)


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    root = tmp_path_factory.mktemp("beside")
    url = f"sqlite:///{root / 'lake.db'}"
    with deltasql.connect(url, location=root.as_uri(), settings={"mirror.mode": "off"}) as lake:
        yield lake


@pytest.fixture
def make(lake, tmp_path):
    def made(data: pa.Table = ROWS, by: tuple[str, ...] = (), **properties: str) -> Both:
        name = f"b{next(NUMBERS)}"
        given = {key.replace("_", "."): value for key, value in properties.items()}
        lake.create_table(name, data=data, partition_by=by, properties=given)
        path = str(tmp_path / name)
        write_deltalake(path, data, partition_by=list(by) or None, configuration=given or None)
        return Both(lake, name, path)

    return made


# --- writing -----------------------------------------------------------------------------

WRITES: dict[str, dict[str, Any]] = {
    "append": {"data": ROWS, "mode": "append"},
    "append other columns first": {"data": ROWS.select(ROWS.column_names[::-1]), "mode": "append"},
    "append no rows": {"data": ROWS.slice(0, 0), "mode": "append"},
    "append a new column": {
        "data": ROWS.append_column("new", pa.array([1, 2, 3, 4])),
        "mode": "append",
        "schema_mode": "merge",
    },
    "append without some columns": {"data": MORE, "mode": "append", "schema_mode": "merge"},
    "overwrite": {"data": ROWS.slice(2), "mode": "overwrite"},
    "overwrite with another schema": {
        "data": pa.table({"other": ["q"]}),
        "mode": "overwrite",
        "schema_mode": "overwrite",
    },
    "overwrite and keep old columns": {"data": MORE, "mode": "overwrite", "schema_mode": "merge"},
    "overwrite where": {"data": ROWS.slice(0, 1), "mode": "overwrite", "predicate": "id = 1"},
    "overwrite where, by a text": {
        "data": ROWS.slice(0, 2), "mode": "overwrite", "predicate": "p = 'a'"
    },
    "overwrite where, by a range": {
        "data": ROWS.slice(2, 1), "mode": "overwrite", "predicate": "id >= 2 AND id < 4"
    },
    "overwrite where, by one of some": {
        "data": ROWS.slice(0, 1), "mode": "overwrite", "predicate": "id IN (1, 3)"
    },
    "overwrite where, nothing there": {
        "data": ROWS.slice(0, 0), "mode": "overwrite", "predicate": "id > 100"
    },
    "overwrite where a day": {
        "data": ROWS.slice(0, 1), "mode": "overwrite", "predicate": "day = '2024-05-06'"
    },
    "ignore": {"data": ROWS, "mode": "ignore"},
}  # fmt: skip


@pytest.mark.parametrize(("what", "by"), each_value(tuple(WRITES), PARTITIONS))
def test_writes(make, what, by):
    both, how = make(by=by), dict(WRITES[what])
    if what == "overwrite with another schema" and by:
        how["partition_by"] = []
        # delta-rs can't take the partitions away.
        both.lake.write(how.pop("data"), both.name, **how)
        assert both.ours.snapshot().state.partition_columns == ()
        return
    data = how.pop("data")
    both.lake.write(data, both.name, **how)
    write_deltalake(both.path, data, **how)
    both.same()


@pytest.mark.parametrize("mode", ["append", "overwrite"])
@pytest.mark.parametrize(
    "data",
    [
        ROWS.append_column("new", pa.array([1, 2, 3, 4])),
        ROWS.set_column(0, "id", pa.array(["q"] * 4)),
        pa.table({"other": [1]}),
    ],
    ids=["a new column", "another type", "no column in common"],
)
def test_writes_that_do_not_fit(make, data, mode):
    both = make()
    with pytest.raises(deltasql.DeltaSqlError):
        both.lake.write(data, both.name, mode=mode)
    with pytest.raises(Exception):  # noqa: B017, PT011 - several types of theirs
        write_deltalake(both.path, data, mode=mode)
    both.same()


def test_new_rows_must_satisfy_what_they_replace(make):
    both = make()
    with pytest.raises(deltasql.SchemaMismatchError, match="3 rows break the overwrite"):
        both.lake.write(ROWS, both.name, mode="overwrite", predicate="id = 1")
    with pytest.raises(Exception, match=r"(?i)invalid|violat|constraint"):
        write_deltalake(both.path, ROWS, mode="overwrite", predicate="id = 1")
    both.same()


# --- delete and update ---------------------------------------------------------------------

CONDITIONS = (
    None, "id = 2", "id <> 2", "n > 15", "n IS NULL", "n IS NOT NULL AND x > 2", "p = 'a'",
    "p = 'a' OR id = 4", "NOT (p = 'a')", "id % 2 = 0", "x * 2 = 3.0", "day > '2024-05-06'",
    "day = DATE '2024-05-06'", "ok", "NOT ok", "ok = true", "id IN (1, 9)", "id NOT IN (1, 9)",
    "id BETWEEN 2 AND 3", "p LIKE 'a%'", "coalesce(n, 0) < 15", "n + id > 30", "m > 1.5",
    "m = 3.3", "upper(p) = 'B'", "CASE WHEN id > 2 THEN p = 'b' ELSE false END", "id > 100",
    "abs(id - 3) < 2",
)  # fmt: skip


@pytest.mark.parametrize(("where", "by"), each_value(tuple(CONDITIONS), PARTITIONS))
def test_deletes(make, where, by):
    both = make(by=by)
    mine, other = both.ours.delete(where).metrics, both.theirs.delete(where)
    both.same()
    if where is not None:
        assert mine["numDeletedRows"] == other["num_deleted_rows"]
        found = both.ours.snapshot(version=0).scan(where).to_arrow()
        assert found.num_rows == mine["numDeletedRows"]


UPDATES: list[tuple[str | None, dict[str, Any]]] = [
    (None, {"updates": {"n": "0"}}),
    ("id = 2", {"updates": {"n": "n + 1"}}),
    ("id > 1", {"updates": {"x": "x * 2", "n": "id * 10"}}),
    ("p = 'a'", {"updates": {"p": "'z'"}}),
    ("p IS NULL", {"updates": {"p": "'none'"}}),
    ("id = 1", {"updates": {"p": "NULL"}}),
    ("n IS NULL OR id = 1", {"updates": {"n": "coalesce(n, 7)"}}),
    ("ok", {"updates": {"ok": "NOT ok"}}),
    ("id = 3", {"updates": {"day": "DATE '2020-02-29'"}}),
    ("id = 3", {"updates": {"day": "'2020-02-29'"}}),
    ("id % 2 = 1", {"updates": {"p": "concat(p, '-', 'x')"}}),
    ("id = 4", {"updates": {"p": "CASE WHEN n > 1 THEN 'big' ELSE 'small' END"}}),
    ("id = 4", {"updates": {"n": "CAST('12' AS int)"}}),
    ("id = 1", {"updates": {"m": "m + 1"}}),
    ("id = 1", {"new_values": {"p": "100 %"}}),
    ("id = 1", {"new_values": {"n": 5, "x": 2.5, "ok": False}}),
    ("id > 100", {"updates": {"n": "1"}}),
]


@pytest.mark.parametrize(("where", "how"), UPDATES, ids=[str(item)[:70] for item in UPDATES])
def test_updates(make, where, how):
    both = make(by=("p",))
    mine = both.ours.update(predicate=where, **how).metrics
    other = both.theirs.update(predicate=where, **how)
    both.same()
    assert mine["numUpdatedRows"] == other["num_updated_rows"]


# --- merge ---------------------------------------------------------------------------------

Clauses = Callable[[Any], Any]
ON = "t.id = s.id"
SET = {"n": "s.n", "p": "s.p"}
NEW = {"id": "s.id", "n": "s.n", "p": "s.p"}
MERGES: dict[str, Clauses] = {
    "upsert": lambda m: m.when_matched_update(SET).when_not_matched_insert(NEW),
    "update": lambda m: m.when_matched_update({"n": "t.n + s.n"}),
    "update if": lambda m: m.when_matched_update(SET, predicate="s.n > 40 OR s.n IS NULL"),
    "update or delete": lambda m: m.when_matched_update(
        SET, predicate="s.n > 0"
    ).when_matched_delete(),
    "delete": lambda m: m.when_matched_delete(),
    "delete if": lambda m: m.when_matched_delete(predicate="t.id = 3"),
    "insert": lambda m: m.when_not_matched_insert(NEW),
    "insert if": lambda m: m.when_not_matched_insert(NEW, predicate="s.id < 6"),
    "insert, two ways": lambda m: m.when_not_matched_insert(
        {"id": "s.id", "n": "1"}, predicate="s.id = 5"
    ).when_not_matched_insert({"id": "s.id", "n": "2"}),
    "not in the source: delete": lambda m: m.when_not_matched_by_source_delete(),
    "not in the source: delete if": lambda m: m.when_not_matched_by_source_delete("t.id = 1"),
    "not in the source: update": lambda m: m.when_not_matched_by_source_update({"n": "t.n + 1"}),
    "not in the source: update if": lambda m: m.when_not_matched_by_source_update(
        {"n": "0"}, predicate="t.p = 'a' AND t.id > 1"
    ),
    "replace all": lambda m: (
        m.when_matched_update(SET).when_not_matched_insert(NEW).when_not_matched_by_source_delete()
    ),
    "with expressions": lambda m: m.when_matched_update(
        {"n": "coalesce(s.n, t.n)", "p": "t.p || s.p"}
    ).when_not_matched_insert({"id": "s.id * 10", "p": "'new'"}),
}
METRICS = {
    "numTargetRowsInserted": "num_target_rows_inserted",
    "numTargetRowsUpdated": "num_target_rows_updated",
    "numTargetRowsDeleted": "num_target_rows_deleted",
    "numSourceRows": "num_source_rows",
}


@pytest.mark.parametrize(("what", "by"), each_value(tuple(MERGES), PARTITIONS))
def test_merges(make, what, by):
    both, aliases = make(by=by), {"source_alias": "s", "target_alias": "t"}
    mine = MERGES[what](both.ours.merge(MORE, ON, **aliases)).execute().metrics
    other = MERGES[what](both.theirs.merge(MORE, ON, **aliases)).execute()
    both.same()
    for name, same in METRICS.items():
        assert mine[name] == other[same], name


@pytest.mark.parametrize("on", ["t.id = s.id AND t.p = 'b'", "t.id = s.id AND s.n > 40",
                                "t.id = s.id AND t.p = s.p", "t.id = s.id OR t.id = s.id - 10",
                                "t.id = s.id + 1", "false"])  # fmt: skip
def test_conditions_of_merges(make, on):
    both, aliases = make(), {"source_alias": "s", "target_alias": "t"}
    for table in (both.ours, both.theirs):
        merge = table.merge(MORE, on, **aliases)
        merge.when_matched_update(SET).when_not_matched_insert(NEW).execute()
    both.same()


@pytest.mark.parametrize("kind", ["all", "all, but", "grows"])
def test_merges_of_all_columns(make, kind):
    both = make(ROWS.select(["id", "p", "n"]))
    source = MORE.append_column("new", pa.array(list("wxyz"))) if kind == "grows" else MORE
    for table in (both.ours, both.theirs):
        merge = table.merge(source, ON, source_alias="s", target_alias="t",
                            merge_schema=kind == "grows")  # fmt: skip
        left_out = {"except_cols": ["p"]} if kind == "all, but" else {}
        merge = merge.when_matched_update_all(**left_out)
        merge.when_not_matched_insert_all(**left_out).execute()
    both.same()


# --- the feed --------------------------------------------------------------------------------


def _changes(reader: Any, *, since: int = 0) -> Counter[Any]:
    rows = pa.table(reader).drop_columns(["_commit_timestamp"]).to_pylist()
    return Counter(repr(sorted(row.items())) for row in rows if row["_commit_version"] >= since)


def test_feeds(make):
    both = make(by=("p",), delta_enableChangeDataFeed="true")
    for table in (both.ours, both.theirs):
        table.update(predicate="id = 1", updates={"n": "99"})
        table.delete("p = 'b'")
        merge = table.merge(MORE, ON, source_alias="s", target_alias="t")
        merge.when_matched_delete("t.id = 4").when_not_matched_insert(NEW).execute()
    both.lake.write(MORE, both.name, schema_mode="merge")
    write_deltalake(both.path, MORE, mode="append", schema_mode="merge")
    both.same()
    assert _changes(both.ours.change_rows()) == _changes(both.theirs.load_cdf())
    assert _changes(both.ours.change_rows(2)) == _changes(both.theirs.load_cdf(2))
    last = _changes(both.theirs.load_cdf(1, 2))
    assert _changes(both.ours.change_rows(1, 2)) == last
    since = both.ours.snapshot(version=3).timestamp
    mine = _changes(both.ours.change_rows(from_timestamp=since))
    assert mine == _changes(both.theirs.load_cdf(3))
    for first in (5, 99):
        with pytest.raises(deltasql.VersionNotFoundError):
            both.ours.change_rows(first)
        with pytest.raises(Exception, match=r"(?i)version"):
            both.theirs.load_cdf(first).read_all()


# --- rules, history, upkeep --------------------------------------------------------------------


BAD = pa.table({"id": pa.array([-1, 60], pa.int64()), "n": pa.array([70, 70], pa.int32())})


@pytest.mark.parametrize("rule", ["id > 0", "n IS NULL OR n < 50", "id > 0 AND id < 50"])
def test_constraints(make, rule):
    both, bad = make(), BAD
    both.ours.add_constraint("rule", rule)
    both.theirs.alter.add_constraint({"rule": rule})
    with pytest.raises(deltasql.SchemaMismatchError, match="rule"):
        both.ours.append(bad, schema_mode="merge")
    with pytest.raises(Exception, match=r"failed validation check"):
        write_deltalake(both.path, bad, mode="append", schema_mode="merge")
    with pytest.raises(deltasql.SchemaMismatchError, match="rule2"):
        both.ours.add_constraint("rule2", "id > 3")
    with pytest.raises(Exception, match=r"(?i)id > 3|constraint|check"):
        both.theirs.alter.add_constraint({"rule2": "id > 3"})
    both.ours.drop_constraint("rule")
    both.theirs.alter.drop_constraint("rule")
    both.ours.append(bad, schema_mode="merge")
    write_deltalake(both.path, bad, mode="append", schema_mode="merge")
    both.same()


def test_histories(make):
    both = make()
    told = {"task": "nightly", "run": "7"}
    both.lake.write(ROWS, both.name, commit_metadata=told)
    properties = CommitProperties(custom_metadata=told)
    write_deltalake(both.path, ROWS, mode="append", commit_properties=properties)
    both.ours.delete("id = 1")
    both.theirs.delete("id = 1")
    mine, other = both.ours.history(), both.theirs.history()
    assert [entry.version for entry in mine] == [entry["version"] for entry in other] == [2, 1, 0]
    assert [entry.operation for entry in mine[:2]] == ["DELETE", "WRITE"]
    assert [entry["operation"] for entry in other[:2]] == ["DELETE", "WRITE"]
    assert told.items() <= dict(other[1]).items()
    (change,) = both.ours.changes(1, 1)
    (info,) = (item for item in change.actions if isinstance(item, deltasql.CommitInfo))
    assert told.items() <= info.extra.items()
    assert len(both.ours.history(1)) == len(both.theirs.history(1)) == 1


def test_applications_write_once(make):
    both = make()
    properties = CommitProperties(app_transactions=[Transaction("app", 4)])
    write_deltalake(both.path, MORE, mode="append", schema_mode="merge",
                    commit_properties=properties)  # fmt: skip
    both.ours.append(MORE, schema_mode="merge", app_id="app", app_version=4)
    assert both.theirs.transaction_version("app") == both.ours.snapshot().txns["app"] == 4
    both.same()
    # Ours keeps the second one out by itself; with delta-rs the caller looks first.
    assert both.ours.append(MORE, schema_mode="merge", app_id="app", app_version=4) == 1
    both.same()


def test_restoring(make):
    both = make(by=("p",))
    for table in (both.ours, both.theirs):
        table.delete("id = 1")
        table.update(updates={"n": "0"})
    both.ours.restore(version=1)
    both.theirs.restore(1)
    assert [row["id"] for row in both.same()] == [2, 3, 4]
    assert both.ours.version == both.theirs.version() == 3


@pytest.mark.parametrize("how", [{}, {"zorder_by": ["id", "n"]}], ids=["bins", "z-order"])
def test_optimizing(make, how):
    both = make(by=("p",))
    for number in range(3):
        rows = ROWS.set_column(0, "id", pa.array([number * 10 + at for at in range(4)]))
        both.ours.append(rows)
        write_deltalake(both.path, rows, mode="append")
    both.ours.optimize(**how)
    if how:
        both.theirs.optimize.z_order(how["zorder_by"])
    else:
        both.theirs.optimize.compact()
    both.same()
    assert both.ours.snapshot().files().num_rows == len(both.theirs.file_uris()) == 3


def test_optimizing_some_partitions(make):
    both = make(by=("p",))
    both.ours.append(ROWS)
    write_deltalake(both.path, ROWS, mode="append")
    both.ours.optimize("p = 'a'")
    both.theirs.optimize.compact(partition_filters=[("p", "=", "a")])
    both.same()
    assert both.ours.snapshot().files().num_rows == len(both.theirs.file_uris()) == 5


def test_vacuuming(make):
    both = make()
    both.ours.overwrite(ROWS.slice(1))
    write_deltalake(both.path, ROWS.slice(1), mode="overwrite")
    assert not both.ours.vacuum().files
    assert both.theirs.vacuum() == []
    with pytest.raises(deltasql.ValidationError, match="retention"):
        both.ours.vacuum(retention=0, dry_run=True)
    with pytest.raises(Exception, match=r"(?i)retention"):
        both.theirs.vacuum(retention_hours=0)
    both.same()


def test_reading_files_and_partitions(make):
    both = make(by=("p",))
    mine, other = both.ours.partitions(), both.theirs.partitions()
    assert sorted(map(repr, mine)) == sorted(map(repr, other))
    assert both.ours.snapshot().files("p = 'a'").num_rows == 1
    assert len(both.theirs.file_uris(file_pruning_predicate=[("p", "=", "a")])) == 1
    assert both.ours.count() == both.theirs.count() == 4
    names = both.ours.snapshot().files().column("path").to_pylist()
    assert len(names) == len(both.theirs.file_uris()) == 3


def test_versions_and_times(make):
    both = make()
    both.ours.delete("id = 1")
    both.theirs.delete("id = 1")
    old = DeltaTable(both.path, version=0)
    assert _sorted(both.ours.snapshot(version=0).scan().to_arrow()) == _sorted(_arrow(old))
    assert both.ours.snapshot(timestamp=both.ours.snapshot(version=0).timestamp).version == 0
    with pytest.raises(deltasql.VersionNotFoundError):
        both.ours.snapshot(version=9)
    with pytest.raises(Exception, match=r"(?i)version"):
        DeltaTable(both.path, version=9)


def test_altering(make):
    both = make()
    both.ours.add_columns(pa.schema([("more", pa.string())]))
    both.theirs.alter.add_columns(
        [deltalake.Field("more", deltalake.schema.PrimitiveType("string"))]
    )
    both.ours.set_properties({"delta.appendOnly": "true"})
    both.theirs.alter.set_table_properties({"delta.appendOnly": "true"})
    both.same()
    for delete in (both.ours.delete, both.theirs.delete):
        with pytest.raises(Exception, match=r"(?i)append"):
            delete("id = 1")
    assert Path(both.path).exists()
    both.same()
