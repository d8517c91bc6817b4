"""Both routes: every type and write mode does to our table what stock Delta Spark does to a
plain Delta table, or says that the native route can."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from pyspark.errors import PySparkException

from deltasql.errors import SchemaMismatchError, TableExistsError
from tests.spark.cross_check import rows
from tests.spark.routes import NAMES_NATIVE, Found, Source, new_name, new_plain

TYPES = {
    "string": "'é\"\\n'",
    "bigint": "9223372036854775807",
    "int": "-1",
    "smallint": "cast(1 as smallint)",
    "tinyint": "cast(-128 as tinyint)",
    "float": "cast(0.1 as float)",
    "double": "cast('NaN' as double)",
    "boolean": "true",
    "binary": "X'00FF'",
    "date": "date'1969-07-20'",
    "timestamp": "timestamp'2026-02-28 01:02:03.456789'",
    "timestamp_ntz": "timestamp_ntz'1900-02-28 01:02:03.456789'",
    "decimal(5,2)": "cast('-999.99' as decimal(5,2))",
    "decimal(38,10)": "cast('1.0000000001' as decimal(38,10))",
    "array<int>": "array(1, null)",
    "map<string,struct<a:bigint>>": "map('k', named_struct('a', 1L))",
    "struct<a:array<struct<b:string>>,c:int>": (
        "named_struct('a', array(named_struct('b', 'x')), 'c', 1)"
    ),
}
# What a table can be partitioned by, with values that folders spell in ways of their own.
KEYS = {
    "string": "'a b/%=é'",
    "bigint": "-1L",
    "boolean": "false",
    "date": "date'2026-01-01'",
    "timestamp": "timestamp'2026-02-28 01:02:03.456789'",
    "timestamp_ntz": "timestamp_ntz'2026-02-28 01:02:03'",
    "decimal(5,2)": "cast('1.50' as decimal(5,2))",
    "double": "0.1D",
}
FIRST = "SELECT id, id % 3 AS p, cast(id AS string) AS s FROM range(12)"
MORE = "SELECT id + 100 AS id, 1L AS p, 'new' AS s FROM range(2)"
WIDER = "SELECT 50L id, 2L p, 1.5D AS extra, named_struct('a', 1) AS st"


@dataclass(frozen=True)
class Change:
    """One write to a table of FIRST, which is partitioned by p."""

    sql: str = MORE
    options: dict[str, Any] = field(default_factory=dict)
    # What the data source route says instead; None where it does the same.
    refused: str | None = None
    # What everybody else says; None where it is a write.
    fails: str | None = None


MODES = {
    "append": Change(),
    "append, other order, fewer columns": Change("SELECT 1L AS p, 77L AS id"),
    "append nothing": Change(f"{MORE} LIMIT 0"),
    "append once": Change(options={"txnAppId": "etl", "txnVersion": 1}),
    "overwrite": Change(options={"mode": "overwrite"}),
    "overwrite with nothing": Change(f"{MORE} LIMIT 0", {"mode": "overwrite"}),
    "dynamic": Change(
        options={"mode": "overwrite", "partitionOverwriteMode": "dynamic"}, refused=NAMES_NATIVE
    ),
    "replace a partition": Change(
        options={"mode": "overwrite", "replaceWhere": "p = 1"}, refused=NAMES_NATIVE
    ),
    "replace rows": Change(
        options={"mode": "overwrite", "replaceWhere": "p = 1 AND id > 5"}, refused=NAMES_NATIVE
    ),
    "replace by any condition": Change(
        options={"mode": "overwrite", "replaceWhere": "id > 5 AND p = 1 OR length(s) = 3"},
        refused=NAMES_NATIVE,
    ),
    "merge schema": Change(WIDER, {"mergeSchema": True}, NAMES_NATIVE),
    "overwrite schema": Change(
        "SELECT 'x' AS id, 1 AS other",
        {"mode": "overwrite", "overwriteSchema": True},
        NAMES_NATIVE,
    ),
    "overwrite schema and partitioning": Change(
        "SELECT 1 AS a, 2 AS b",
        {"mode": "overwrite", "overwriteSchema": True, "by": ["b"]},
        # Spark itself asks first whether the table has this partitioning.
        "partitioning",
    ),
    # Spark itself refuses these before it asks a data source that is not in its catalog.
    "ignore": Change(options={"mode": "ignore"}, refused="UNSUPPORTED_DATA_SOURCE_SAVE_MODE"),
    "error": Change(
        options={"mode": "error"},
        refused="UNSUPPORTED_DATA_SOURCE_SAVE_MODE",
        fails="already|ALREADY",
    ),
}
# The types of columns, and values of other types that stock Delta casts to them.
CASTS = [
    ("bigint", "cast(1 AS int)"),
    ("int", "cast(1 AS bigint)"),
    ("float", "1.5D"),
    ("struct<x:int,y:string>", "named_struct('y', 'q', 'x', 1L)"),
    ("struct<x:int,y:string>", "named_struct('x', 1)"),
    ("array<struct<x:bigint>>", "array(named_struct('x', 1), null)"),
    ("map<string,bigint>", "map('k', 1)"),
    ("char(3)", "'a'"),
    ("varchar(2)", "'ab'"),
]
# Between kinds of values: Arrow does not cast these as ANSI SQL does, so that route refuses.
NATIVE_CASTS = [
    ("bigint", "'5'"),
    ("string", "5"),
    ("date", "timestamp'2020-01-01 10:00:00'"),
    ("timestamp", "date'2020-01-01'"),
    ("decimal(5,2)", "cast(1.239 AS decimal(10,3))"),
    ("boolean", "1"),
]
REFUSED = [
    ("int", "cast(99999999999 AS bigint)"),
    ("bigint", "'x'"),
    ("decimal(5,2)", "cast(12345 AS decimal(10,0))"),
    ("bigint", "array(1)"),
    ("struct<x:int>", "named_struct('x', 1, 'z', 2)"),
    ("varchar(2)", "'abc'"),
]


# --- types ------------------------------------------------------------------------------


def test_every_type(spark, plain, route, known):
    columns = ", ".join(f"{text} AS c{n}" for n, text in enumerate(TYPES.values()))
    nulls = ", ".join(f"cast(null as {kind}) AS c{n}" for n, kind in enumerate(TYPES))
    frame = spark.sql(f"SELECT {columns} UNION ALL SELECT {nulls}")

    def ask() -> Found:
        name = new_plain(spark)
        plain.write(frame, name)
        return Found.of(plain.read(name))

    name = new_name()
    route.write(frame, name)
    assert Found.of(route.read(name)) == known("types", ask)


def test_every_type_of_partition(spark, db, plain, route, known):
    named = [(f"p{n}", kind, text) for n, (kind, text) in enumerate(KEYS.items())]
    keys = [key for key, _, _ in named]
    values = ", ".join(f"{text} AS {key}" for key, _, text in named)
    nulls = ", ".join(f"cast(null as {kind}) AS {key}" for key, kind, _ in named)
    frame = spark.sql(f"SELECT 1 AS id, {values} UNION ALL SELECT 2 AS id, {nulls}")

    def ask() -> Found:
        name = new_plain(spark)
        plain.write(frame, name, by=keys)
        return Found.of(plain.read(name))

    name = new_name()
    # The data source route has no means to make a table that is partitioned.
    columns = ", ".join(["id INT", *(f"{key} {kind}" for key, kind, _ in named)])
    db.create_table(name, columns, keys)
    route.write(frame, name)
    assert Found.of(route.read(name)) == known("partitions", ask)


def written_casts(spark, target, casts, make):
    """A table with these columns, given one row by a route or by stock Delta."""
    columns = ", ".join(f"c{n} {kind}" for n, (kind, _) in enumerate(casts))
    values = ", ".join(f"{value} AS c{n}" for n, (_, value) in enumerate(casts))
    name = make(columns)
    target.write(spark.sql(f"SELECT {values}"), name)
    return Found.of(target.read(name))


@pytest.fixture
def new_table(db):
    def make(columns: str) -> str:
        name = new_name()
        db.create_table(name, columns)
        return name

    return make


@pytest.mark.parametrize("casts", [CASTS, NATIVE_CASTS], ids=["within a kind", "between kinds"])
def test_casts(spark, db, plain, route, known, new_table, casts):
    if isinstance(route, Source) and casts is NATIVE_CASTS:
        for kind, value in casts:
            name = new_table(f"a {kind}")
            with pytest.raises(PySparkException, match="does not fit the table"):
                route.write(spark.sql(f"SELECT {value} AS a"), name)
            assert db.lake.table(name).version == 0
        return
    expected = known(
        ("casts", len(casts)),
        lambda: written_casts(spark, plain, casts, lambda columns: new_plain(spark, columns)),
    )
    assert written_casts(spark, route, casts, new_table) == expected


def test_what_does_not_fit_is_refused(spark, db, plain, route, known, new_table):
    columns = ", ".join(f"c{n} {kind}" for n, (kind, _) in enumerate(REFUSED))
    frames = [spark.sql(f"SELECT {value} AS c{n}") for n, (_, value) in enumerate(REFUSED)]

    def ask() -> bool:
        name = new_plain(spark, columns)
        for frame in frames:
            with pytest.raises(Exception, match=r"\["):  # with Spark's condition
                plain.write(frame, name)
        return True

    assert known("refused", ask)
    name = new_table(columns)
    for frame in frames:
        with pytest.raises((SchemaMismatchError, PySparkException)):
            route.write(frame, name)
    assert db.lake.table(name).version == 0


# --- writing ----------------------------------------------------------------------------


def changed(target, spark, name: str, change: Change) -> None:
    """The write, twice where it has to count once."""
    options = dict(change.options)
    for _ in range(2 if "txnAppId" in options else 1):
        target.write(spark.sql(change.sql), name, **options)


def make(spark, db, route) -> str:
    """Our table of FIRST, partitioned by p."""
    name = new_name()
    db.create_table(name, "id BIGINT, p BIGINT, s STRING", ["p"])
    route.write(spark.sql(FIRST), name)
    return name


@pytest.fixture(scope="module")
def untouched(spark, db, route):
    """One table for all writes that are refused."""
    return make(spark, db, route)


def told_by_stock(spark, plain, change: Change) -> tuple[Found, list[str]]:
    name = new_plain(spark)
    plain.write(spark.sql(FIRST), name, by=["p"])
    if change.fails is not None:
        with pytest.raises(PySparkException, match=change.fails):
            changed(plain, spark, name, change)
    else:
        changed(plain, spark, name, change)
    partitions = ["p"]
    if "overwriteSchema" in change.options:
        partitions = list(spark.sql(f"DESCRIBE DETAIL {name}").collect()[0].partitionColumns)
    return Found.of(plain.read(name)), partitions


@pytest.mark.parametrize("about", MODES)
def test_modes(spark, db, plain, route, known, untouched, about):
    change = MODES[about]
    expected, partitions = known(("mode", about), lambda: told_by_stock(spark, plain, change))
    refused = change.refused if isinstance(route, Source) else change.fails
    if refused is not None:
        with pytest.raises((TableExistsError, PySparkException), match=refused):
            changed(route, spark, untouched, change)
        assert db.lake.table(untouched).version == 1
        return
    name = make(spark, db, route)
    changed(route, spark, name, change)
    assert Found.of(route.read(name)) == expected
    assert list(db.lake.table(name).snapshot().metadata.partition_columns) == partitions


def test_a_write_makes_the_table(spark, plain, route, known):
    expected = known("made", lambda: _made(spark, plain))
    name = new_name()
    route.write(spark.sql(FIRST), name)
    assert Found.of(route.read(name)) == expected
    other = new_name()
    route.write(spark.sql(FIRST), other, mode="overwrite")
    assert Found.of(route.read(other)) == expected


def _made(spark, plain) -> Found:
    name = new_plain(spark)
    plain.write(spark.sql(FIRST), name)
    return Found.of(plain.read(name))


def test_partitions_of_a_new_table_are_native_only(spark, db, name):
    with pytest.raises(PySparkException, match="partition"):
        Source(spark).write(spark.sql(FIRST), name, by=["p"])
    assert name not in [table.name for table in db.lake.tables()]


RULES = {
    "a generated column": "a INT, g INT GENERATED ALWAYS AS (a + 1)",
    "an identity column": "a INT, i BIGINT GENERATED ALWAYS AS IDENTITY",
    "a default": "a INT, d INT DEFAULT 7",
}


@pytest.mark.parametrize("about", RULES)
def test_columns_that_the_writer_fills(spark, db, plain, route, known, about):
    def ask() -> Found:
        allowed = " TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')"
        name = new_plain(spark, RULES[about], more=allowed)
        plain.write(spark.sql("SELECT 1 a"), name)
        return Found.of(plain.read(name))

    name = new_name()
    db.create_table(name, RULES[about])
    if isinstance(route, Source):
        with pytest.raises(PySparkException, match=NAMES_NATIVE):
            route.write(spark.sql("SELECT 1 a"), name)
        assert db.lake.table(name).version == 0
        return
    route.write(spark.sql("SELECT 1 a"), name)
    assert Found.of(route.read(name)).rows == known(("rule", about), ask).rows


def test_rules_are_enforced(spark, db, route, new_table):
    name = new_name()
    db.create_table(name, "n INT NOT NULL, z INT", properties={"delta.constraints.c": "n > 0"})
    for sql in ("SELECT -1 n", "SELECT cast(null AS int) n", "SELECT 1 z"):
        with pytest.raises((SchemaMismatchError, PySparkException), match=r"NOT NULL|null|CHECK"):
            route.write(spark.sql(sql), name)
    assert db.lake.table(name).version == 0
    route.write(spark.sql("SELECT 1 n"), name)
    assert rows(route.read(name)) == ["(1, None)"]


def test_a_constraint_that_arrow_cannot_decide_is_native_only(spark, db, name):
    db.create_table(name, "n INT", properties={"delta.constraints.c": "abs(n) < 10"})
    with pytest.raises(PySparkException, match=NAMES_NATIVE):
        Source(spark).write(spark.sql("SELECT 1 n"), name)
    db.write(spark.sql("SELECT -9 n"), name)
    assert rows(db.read(name)) == ["(-9,)"]
