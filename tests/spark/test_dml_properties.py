"""Made-up deletes, updates and merges: the same rows and changes as stock Delta's."""

from __future__ import annotations

import os
import uuid

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deltasql.errors import ValidationError
from tests.spark.judge import rows

SCHEMA = "id int, p int, v string"
FACTOR = float(os.environ.get("DELTASQL_STRESS", "0.1"))
CONDITIONS = (
    "{t}id = 3", "{t}p = 1", "{t}p IS NULL", "{t}v > 'b'", "{t}id < 4 AND {t}p = 1",
    "{t}id IS NULL OR {t}v = 'a'", "NOT {t}p = 2", "{t}id IN (1, 2, NULL)", "length({t}v) = 1",
)  # fmt: skip
SETS = (
    {"v": "concat({t}v, 'x')"},
    {"p": "{t}p + 1"},
    {"id": "{t}id + 1", "v": "null"},
    {"p": "null", "v": "'set'"},
)
ONS = ("t.id = s.id", "t.id = s.id AND t.p = s.p", "t.id = s.id AND t.p = 1", "t.id <=> s.id")
numbers = st.none() | st.integers(0, 5)
row = st.tuples(numbers, st.none() | st.integers(0, 2), st.sampled_from((None, "a", "b", "c")))
some = st.none() | st.sampled_from(CONDITIONS)


def _clauses(verbs):
    return st.lists(
        st.tuples(st.sampled_from(verbs), st.sampled_from(CONDITIONS), st.sampled_from(SETS)),
        max_size=2,
    )


merges = st.fixed_dictionaries(
    {
        "on": st.sampled_from(ONS),
        # Mostly unique, sometimes not: then both refuse.
        "source": st.lists(row, max_size=4, unique_by=lambda item: item[0])
        | st.lists(row, max_size=4),
        "matched": _clauses(("update", "update all", "delete")),
        "absent": _clauses(("insert", "insert all")),
        "lost": _clauses(("update", "delete")),
    }
).filter(lambda item: item["matched"] or item["absent"] or item["lost"])
operations = st.one_of(
    st.tuples(st.just("delete"), some),
    st.tuples(st.just("update"), some, st.sampled_from(SETS)),
    st.tuples(st.just("merge"), merges),
)


def _plain(given, alias=""):
    return {key: value.format(t=alias) for key, value in given.items()}


def _ours(spark, table, operation):
    match operation:
        case ("delete", condition):
            table.delete(condition and condition.format(t=""))
        case ("update", condition, values):
            table.update(condition and condition.format(t=""), _plain(values))
        case ("merge", merge):
            source = spark.createDataFrame(merge["source"], SCHEMA).alias("s")
            _built(table.alias("t").merge(source, merge["on"]), merge).execute()


def _built(builder, merge):
    for verb, condition, values in merge["matched"]:
        where = condition.format(t="t.")
        if verb == "update":
            builder = builder.whenMatchedUpdate(where, _plain(values, "s."))
        elif verb == "delete":
            builder = builder.whenMatchedDelete(where)
        else:
            builder = builder.whenMatchedUpdateAll(where)
    for verb, condition, values in merge["absent"]:
        where = condition.format(t="s.")
        if verb == "insert":
            builder = builder.whenNotMatchedInsert(where, _plain(values, "s."))
        else:
            builder = builder.whenNotMatchedInsertAll(where)
    for verb, condition, values in merge["lost"]:
        where = condition.format(t="t.")
        if verb == "update":
            builder = builder.whenNotMatchedBySourceUpdate(where, _plain(values, "t."))
        else:
            builder = builder.whenNotMatchedBySourceDelete(where)
    return builder


def _theirs(spark, table, operation):
    def assigned(values, alias):
        return ", ".join(f"{key} = {value}" for key, value in _plain(values, alias).items())

    match operation:
        case ("delete", condition):
            where = f" WHERE {condition.format(t='')}" if condition else ""
            spark.sql(f"DELETE FROM {table}{where}")
        case ("update", condition, values):
            where = f" WHERE {condition.format(t='')}" if condition else ""
            spark.sql(f"UPDATE {table} SET {assigned(values, '')}{where}")
        case ("merge", merge):
            spark.createDataFrame(merge["source"], SCHEMA).createOrReplaceTempView("made_up")
            text = f"MERGE INTO {table} t USING made_up s ON {merge['on']}"
            for verb, condition, values in merge["matched"]:
                does = {"delete": "DELETE", "update all": "UPDATE SET *"}.get(
                    verb, f"UPDATE SET {assigned(values, 's.')}"
                )
                text += f" WHEN MATCHED AND {condition.format(t='t.')} THEN {does}"
            for verb, condition, values in merge["absent"]:
                given = _plain(values, "s.")
                does = "INSERT *"
                if verb == "insert":
                    does = f"INSERT ({', '.join(given)}) VALUES ({', '.join(given.values())})"
                text += f" WHEN NOT MATCHED AND {condition.format(t='s.')} THEN {does}"
            for verb, condition, values in merge["lost"]:
                does = "DELETE" if verb == "delete" else f"UPDATE SET {assigned(values, 't.')}"
                text += f" WHEN NOT MATCHED BY SOURCE AND {condition.format(t='t.')} THEN {does}"
            spark.sql(text)


def _refusal(run) -> bool:
    try:
        run()
    except ValidationError:
        return True
    except Exception as error:
        if "DELTA_MULTIPLE_SOURCE_ROW_MATCHING" in str(error):
            return True
        raise
    return False


def _check(spark, db, tmp_path, first, vectors, made):
    name, plain = f"p.{uuid.uuid4().hex[:12]}", f"stock_{uuid.uuid4().hex[:12]}"
    properties = {"delta.enableChangeDataFeed": "true"}
    if vectors:
        properties["delta.enableDeletionVectors"] = "true"
    frame = spark.createDataFrame(first, SCHEMA).coalesce(1)
    db.write(frame, name, partition_by="p", properties=properties)
    texts = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
    spark.sql(
        f"CREATE TABLE {plain} ({SCHEMA}) USING delta PARTITIONED BY (p) "
        f"LOCATION '{tmp_path / plain}' TBLPROPERTIES ({texts})"
    )
    frame.write.format("delta").mode("append").saveAsTable(plain)
    try:
        for operation in made:
            ours = _refusal(lambda done=operation: _ours(spark, db.table(name), done))
            theirs = _refusal(lambda done=operation: _theirs(spark, plain, done))
            assert ours == theirs, operation
            assert rows(db.read(name)) == rows(spark.table(plain)), operation
        dropped = ("_commit_version", "_commit_timestamp")
        changes = spark.sql(f"SELECT * FROM table_changes('{plain}', 1)").drop(*dropped)
        assert rows(db.changes(name, 0).drop(*dropped)) == rows(changes)
    finally:
        spark.sql(f"DROP TABLE {plain}")


_SETTINGS = settings(
    max_examples=4,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@_SETTINGS
@given(
    st.lists(row, min_size=1, max_size=8),
    st.booleans(),
    st.lists(operations, min_size=2, max_size=3),
)
def test_made_up_operations(spark, db, tmp_path, first, vectors, made):
    _check(spark, db, tmp_path, first, vectors, made)


@pytest.mark.stress
@pytest.mark.timeout(3600)
@settings(_SETTINGS, max_examples=max(4, int(100 * FACTOR)), derandomize=False)
@given(
    st.lists(row, min_size=1, max_size=12),
    st.booleans(),
    st.lists(operations, min_size=2, max_size=5),
)
def test_many_made_up_operations(spark, db, tmp_path, first, vectors, made):
    _check(spark, db, tmp_path, first, vectors, made)
