"""Made-up deletes, updates and merges: the same rows and changes as stock Delta's."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

from deltasql.errors import ValidationError
from tests.sizes import FULL
from tests.spark.cross_check import STOCK_FAILS, rows

SCHEMA = "id int, p int, v string"
FEED = "delta.enableChangeDataFeed"
VECTORS = "delta.enableDeletionVectors"
# A table of each kind on both sides, used again by every example.
KINDS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "partitions, feed": (("p",), (FEED,)),
    "partitions, feed, vectors": (("p",), (FEED, VECTORS)),
    "plain": ((), ()),
    "vectors": ((), (VECTORS,)),
}
CONDITIONS = (
    "{t}id = 3", "{t}p = 1", "{t}p IS NULL", "{t}v > 'b'", "{t}id < 4 AND {t}p = 1",
    "{t}id IS NULL OR {t}v = 'a'", "NOT {t}p = 2", "{t}id IN (1, 2, NULL)", "length({t}v) = 1",
    "{t}id % 2 = 0", "{t}id BETWEEN 2 AND 4", "{t}v <=> 'c'",
)  # fmt: skip
SETS = (
    {"v": "concat({t}v, 'x')"},
    {"p": "{t}p + 1"},
    {"id": "{t}id + 1", "v": "null"},
    {"p": "null", "v": "'set'"},
    {"id": "coalesce({t}id, 0)"},
)
ONS = (
    "t.id = s.id", "t.id = s.id AND t.p = s.p", "t.id = s.id AND t.p = 1", "t.id <=> s.id",
    "t.id = s.id AND s.v = 'a'", "t.p = s.p AND t.id > s.id", "t.id = s.id + 1 AND t.v <> s.v",
)  # fmt: skip

row = st.tuples(
    st.none() | st.integers(0, 5),
    st.none() | st.integers(0, 2),
    st.sampled_from((None, "a", "b", "c")),
)
some = st.none() | st.sampled_from(CONDITIONS)


def _clauses(verbs):
    """Some with a condition, and perhaps one without, which comes last."""
    conditional = st.tuples(
        st.sampled_from(verbs), st.sampled_from(CONDITIONS), st.sampled_from(SETS)
    )
    last = st.tuples(st.sampled_from(verbs), st.none(), st.sampled_from(SETS))
    lists = st.lists(conditional, max_size=2)
    return st.builds(lambda found, end: [*found, *([end] if end else [])], lists, st.none() | last)


merges = st.fixed_dictionaries(
    {
        "on": st.sampled_from(ONS),
        # Mostly unique, sometimes not: then both refuse.
        "source": st.lists(row, max_size=6, unique_by=lambda item: item[0])
        | st.lists(row, max_size=6),
        "matched": _clauses(("update", "update all", "delete")),
        "absent": _clauses(("insert", "insert all")),
        "lost": st.just([]) | _clauses(("update", "delete")),
    }
).filter(lambda item: item["matched"] or item["absent"] or item["lost"])
operations = st.one_of(
    st.tuples(st.just("delete"), some),
    st.tuples(st.just("update"), some, st.sampled_from(SETS)),
    st.tuples(st.just("merge"), merges),
    st.tuples(st.just("merge"), merges),
)


def _plain(given, alias=""):
    return {key: value.format(t=alias) for key, value in given.items()}


def _where(condition, alias):
    return condition and condition.format(t=alias)


def _ours(spark, table, operation):
    match operation:
        case ("delete", condition):
            table.delete(_where(condition, ""))
        case ("update", condition, values):
            table.update(_where(condition, ""), _plain(values))
        case ("merge", merge):
            source = spark.createDataFrame(merge["source"], SCHEMA).alias("s")
            _built(table.alias("t").merge(source, merge["on"]), merge).execute()


def _built(builder, merge):
    for verb, condition, values in merge["matched"]:
        where = _where(condition, "t.")
        if verb == "update":
            builder = builder.whenMatchedUpdate(where, _plain(values, "s."))
        elif verb == "delete":
            builder = builder.whenMatchedDelete(where)
        else:
            builder = builder.whenMatchedUpdateAll(where)
    for verb, condition, values in merge["absent"]:
        where = _where(condition, "s.")
        if verb == "insert":
            builder = builder.whenNotMatchedInsert(where, _plain(values, "s."))
        else:
            builder = builder.whenNotMatchedInsertAll(where)
    for verb, condition, values in merge["lost"]:
        where = _where(condition, "t.")
        if verb == "update":
            builder = builder.whenNotMatchedBySourceUpdate(where, _plain(values, "t."))
        else:
            builder = builder.whenNotMatchedBySourceDelete(where)
    return builder


def _theirs(spark, table, operation):
    match operation:
        case ("delete", condition):
            where = f" WHERE {_where(condition, '')}" if condition else ""
            spark.sql(f"DELETE FROM {table}{where}")
        case ("update", condition, values):
            where = f" WHERE {_where(condition, '')}" if condition else ""
            spark.sql(f"UPDATE {table} SET {_assigned(values, '')}{where}")
        case ("merge", merge):
            spark.createDataFrame(merge["source"], SCHEMA).createOrReplaceTempView("made_up")
            spark.sql(_as_sql(table, merge))


def _assigned(values, alias):
    return ", ".join(f"{key} = {value}" for key, value in _plain(values, alias).items())


def _as_sql(table, merge):
    def when(side, condition, alias):
        return f" WHEN {side}" + (f" AND {_where(condition, alias)}" if condition else "")

    text = f"MERGE INTO {table} t USING made_up s ON {merge['on']}"
    for verb, condition, values in merge["matched"]:
        does = {"delete": "DELETE", "update all": "UPDATE SET *"}.get(
            verb, f"UPDATE SET {_assigned(values, 's.')}"
        )
        text += f"{when('MATCHED', condition, 't.')} THEN {does}"
    for verb, condition, values in merge["absent"]:
        given = _plain(values, "s.")
        does = "INSERT *"
        if verb == "insert":
            does = f"INSERT ({', '.join(given)}) VALUES ({', '.join(given.values())})"
        text += f"{when('NOT MATCHED', condition, 's.')} THEN {does}"
    for verb, condition, values in merge["lost"]:
        does = "DELETE" if verb == "delete" else f"UPDATE SET {_assigned(values, 't.')}"
        text += f"{when('NOT MATCHED BY SOURCE', condition, 't.')} THEN {does}"
    return text


def _refusal(run, *arguments) -> bool:
    try:
        run(*arguments)
    except ValidationError:
        return True
    except Exception as error:
        if "DELTA_MULTIPLE_SOURCE_ROW_MATCHING" in str(error):
            return True
        if run is _theirs and STOCK_FAILS in str(error):
            reject()
        raise
    return False


@dataclass
class Pair:
    """Our table and stock Delta's, with the same rows."""

    spark: Any
    db: Any
    ours: str
    plain: str
    path: str
    has_feed: bool
    agrees: bool = True

    def fill(self, first) -> tuple[int, int]:
        """Begin anew; returns the versions of both that do."""
        if not self.agrees:
            # What an overwrite removes is in the feed, too.
            self._write([])
        self.agrees = False
        return self._write(first)

    def _write(self, first) -> tuple[int, int]:
        frame = self.spark.createDataFrame(first, SCHEMA).coalesce(1)
        ours = self.db.write(frame, self.ours, mode="overwrite")
        frame.write.format("delta").mode("overwrite").saveAsTable(self.plain)
        log = self.spark._jvm.org.apache.spark.sql.delta.DeltaLog
        found = log.forTable(self.spark._jsparkSession, self.path)
        return ours, found.unsafeVolatileSnapshot().version()

    def check(self, start: tuple[int, int]) -> None:
        assert rows(self.db.read(self.ours)) == rows(self.spark.table(self.plain))
        if self.has_feed:
            theirs = f"SELECT * FROM table_changes('{self.plain}', {start[1]})"
            dropped = ("_commit_version", "_commit_timestamp")
            changes = rows(self.spark.sql(theirs).drop(*dropped))
            assert rows(self.db.changes(self.ours, start[0]).drop(*dropped)) == changes
        self.agrees = True


@pytest.fixture(scope="module")
def pairs(spark, db, tmp_path_factory):
    made = {}
    for kind, (by, properties) in KINDS.items():
        name, plain = f"p.{uuid.uuid4().hex[:12]}", f"stock_{uuid.uuid4().hex[:12]}"
        path = str(tmp_path_factory.mktemp("stock") / plain)
        given = dict.fromkeys(properties, "true")
        db.create_table(name, SCHEMA, partition_by=by, properties=given)
        # Checkpoints would only cost time.
        texts = {"delta.checkpointInterval": "1000", **given}.items()
        told = ", ".join(f"'{key}' = '{value}'" for key, value in texts)
        spark.sql(
            f"CREATE TABLE {plain} ({SCHEMA}) USING delta "
            f"{'PARTITIONED BY (p)' if by else ''} LOCATION '{path}' "
            f"TBLPROPERTIES ({told})"
        )
        made[kind] = Pair(spark, db, name, plain, path, FEED in properties)
    yield made
    spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")
    for pair in made.values():
        spark.sql(f"DROP TABLE {pair.plain}")


@pytest.mark.timeout(3600)
@settings(
    max_examples=200 if FULL else 6,
    # What `make test` checks is the same each time; the full size looks elsewhere each time.
    derandomize=not FULL,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    st.sampled_from(sorted(KINDS)),
    st.lists(row, min_size=1, max_size=12),
    st.lists(operations, min_size=2, max_size=4),
    st.booleans(),
)
def test_made_up_operations(pairs, kind, first, made, broadcasts):
    pair = pairs[kind]
    # Without, a merge goes the way of one with many matches.
    pair.spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "10MB" if broadcasts else "-1")
    start = pair.fill(first)
    for operation in made:
        ours = _refusal(_ours, pair.spark, pair.db.table(pair.ours), operation)
        theirs = _refusal(_theirs, pair.spark, pair.plain, operation)
        assert ours == theirs, operation
    pair.check(start)
