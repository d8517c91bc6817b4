"""Made-up deletes, updates and merges: the same rows and changes as stock Delta's.

Twice: through Spark, and from Arrow without it.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

from deltasql.errors import ValidationError
from tests.row_operations import batch, built, expressions, operations, row, run_from_arrow, where
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


def _ours(spark, table, operation):
    match operation:
        case ("delete", condition):
            table.delete(where(condition, ""))
        case ("update", condition, values):
            table.update(where(condition, ""), expressions(values))
        case ("merge", merge):
            source = spark.createDataFrame(merge["source"], SCHEMA).alias("s")
            built(table.alias("t").merge(source, merge["on"]), merge).execute()


def _theirs(spark, table, operation):
    match operation:
        case ("delete", condition):
            only = f" WHERE {where(condition, '')}" if condition else ""
            spark.sql(f"DELETE FROM {table}{only}")
        case ("update", condition, values):
            only = f" WHERE {where(condition, '')}" if condition else ""
            spark.sql(f"UPDATE {table} SET {_assigned(values, '')}{only}")
        case ("merge", merge):
            spark.createDataFrame(merge["source"], SCHEMA).createOrReplaceTempView("made_up")
            spark.sql(_as_sql(table, merge))


def _assigned(values, alias):
    return ", ".join(f"{key} = {value}" for key, value in expressions(values, alias).items())


def _as_sql(table, merge):
    def when(side, condition, alias):
        return f" WHEN {side}" + (f" AND {where(condition, alias)}" if condition else "")

    text = f"MERGE INTO {table} t USING made_up s ON {merge['on']}"
    for verb, condition, values in merge["matched"]:
        does = {"delete": "DELETE", "update all": "UPDATE SET *"}.get(
            verb, f"UPDATE SET {_assigned(values, 's.')}"
        )
        text += f"{when('MATCHED', condition, 't.')} THEN {does}"
    for verb, condition, values in merge["absent"]:
        given = expressions(values, "s.")
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
    """Our tables, of which one is never written by Spark, and stock Delta's, with the same rows."""

    spark: Any
    db: Any
    ours: str
    arrow: Any
    plain: str
    path: str
    has_feed: bool
    agrees: bool = True

    def fill(self, first) -> tuple[int, int, int]:
        """Begin anew; returns the versions of all that do."""
        if not self.agrees:
            # What an overwrite removes is in the feed, too.
            self._write([])
        self.agrees = False
        return self._write(first)

    def _write(self, first) -> tuple[int, int, int]:
        frame = self.spark.createDataFrame(first, SCHEMA).coalesce(1)
        ours = self.db.write(frame, self.ours, mode="overwrite")
        frame.write.format("delta").mode("overwrite").saveAsTable(self.plain)
        log = self.spark._jvm.org.apache.spark.sql.delta.DeltaLog
        found = log.forTable(self.spark._jsparkSession, self.path)
        arrow = self.arrow.overwrite(batch(first))
        return ours, found.unsafeVolatileSnapshot().version(), arrow

    def check(self, start: tuple[int, int, int]) -> None:
        expected = rows(self.spark.table(self.plain))
        assert rows(self.db.read(self.ours)) == expected
        mine = self.arrow.scan().to_arrow().to_pylist()
        assert sorted(repr(tuple(row.values())) for row in mine) == expected
        if self.has_feed:
            theirs = f"SELECT * FROM table_changes('{self.plain}', {start[1]})"
            dropped = ("_commit_version", "_commit_timestamp")
            changes = rows(self.spark.sql(theirs).drop(*dropped))
            assert rows(self.db.changes(self.ours, start[0]).drop(*dropped)) == changes
            name, first = self.arrow.name, start[2]
            assert rows(self.db.changes(name, first).drop(*dropped)) == changes
        self.agrees = True


@pytest.fixture(scope="module")
def pairs(spark, db, tmp_path_factory):
    made = {}
    for kind, (by, properties) in KINDS.items():
        name, plain = f"p.{uuid.uuid4().hex[:12]}", f"stock_{uuid.uuid4().hex[:12]}"
        path = str(tmp_path_factory.mktemp("stock") / plain)
        given = dict.fromkeys(properties, "true")
        db.create_table(name, SCHEMA, partition_by=by, properties=given)
        db.create_table(f"{name}.arrow", SCHEMA, partition_by=by, properties=given)
        # Checkpoints would only cost time.
        texts = {"delta.checkpointInterval": "1000", **given}.items()
        told = ", ".join(f"'{key}' = '{value}'" for key, value in texts)
        spark.sql(
            f"CREATE TABLE {plain} ({SCHEMA}) USING delta "
            f"{'PARTITIONED BY (p)' if by else ''} LOCATION '{path}' "
            f"TBLPROPERTIES ({told})"
        )
        arrow = db.lake.table(f"{name}.arrow")
        made[kind] = Pair(spark, db, name, arrow, plain, path, FEED in properties)
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
        arrow = _refusal(run_from_arrow, pair.arrow, operation)
        assert ours == theirs == arrow, operation
    pair.check(start)
