"""The fault matrix for PySpark: every verb that writes, struck wherever it commits."""

from __future__ import annotations

from itertools import product

import pytest

import deltasql.spark
from tests.faults.matrix.cases import Case, strike_everywhere
from tests.faults.matrix.striking import Kind
from tests.faults.matrix.verbs import Place, Verb
from tests.sizes import FULL, each_value

MATCHED = "target.id = source.id"


class Spark:
    """The session's side of a case."""

    def __init__(self, session, place: Place) -> None:
        self.session = session
        self.place = place
        self.db = deltasql.spark.attach(session, place.lake)

    def rows(self, *ids: int):
        return self.session.createDataFrame([(item, "x") for item in ids], "id BIGINT, p STRING")

    def write(self, short: str, mode: str, **options) -> None:
        self.db.write(self.rows(3), self.place.name(short), mode=mode, **options)

    @property
    def a(self):
        return self.db.table(self.place.name("a"))

    def merge(self) -> None:
        merge = self.a.merge(self.rows(2, 3), MATCHED)
        merge.whenMatchedDelete().whenNotMatchedInsertAll().execute()

    def sink(self) -> None:
        self.db.sink(self.place.name("a"), app_id="stream")(self.rows(3), 0)

    def transaction(self) -> None:
        with self.db.transaction() as tx:
            tx.write(self.rows(3), self.place.name("a"))
            tx.table(self.place.name("b")).delete("id = 1")


# What each does, and what the tables hold then.
CALLS = {
    "append": (lambda s: s.write("a", "append"), {"a": (1, 2, 3)}),
    "merge schema": (
        lambda s: s.db.write(
            s.session.sql("SELECT 3L AS id, 'x' AS p, 1 AS n"), s.place.name("a"), merge_schema=True
        ),
        {"a": (1, 2, 3)},
    ),
    "overwrite": (lambda s: s.write("a", "overwrite"), {"a": (3,)}),
    "replace where": (
        lambda s: s.write("a", "overwrite", replace_where="id >= 2"),
        {"a": (1, 3)},
    ),
    "error": (lambda s: s.write("new", "error"), {"new": (3,)}),
    "ignore": (lambda s: s.write("new", "ignore"), {"new": (3,)}),
    "delete": (lambda s: s.a.delete("id = 1"), {"a": (2,)}),
    "update": (lambda s: s.a.update("id = 1", {"id": "5"}), {"a": (2, 5)}),
    "merge": (Spark.merge, {"a": (1, 3)}),
    "sink": (Spark.sink, {"a": (1, 2, 3)}),
    "transaction": (Spark.transaction, {"a": (1, 2, 3), "b": (2,)}),
}
ALL = list(product(("sqlite", "duckdb", "postgres"), Kind, (False, True)))
# Each database, each kind and both lengths at least once, spread over the verbs: tests/faults has
# the pairs of them without Spark.
SOME = [
    ("sqlite", Kind.LOST_AFTER, False),
    ("sqlite", Kind.REFUSED, True),
    ("postgres", Kind.LOST_AFTER, True),
    ("postgres", Kind.FATAL_AFTER, False),
    ("duckdb", Kind.LOST_BEFORE, False),
]


@pytest.mark.parametrize(
    ("verb", "database", "kind", "lasts"),
    [
        pytest.param(verb, *strike, marks=[pytest.mark.postgres] * (strike[0] == "postgres"))
        for verb, strike in each_value(tuple(CALLS), ALL if FULL else SOME)
    ],
)
def test_struck_where_it_commits(spark, request, tmp_path, database, kind, lasts, verb):
    url = request.getfixturevalue(f"{database}_url")
    call, after = CALLS[verb]
    struck = Verb(lambda place: call(Spark(spark, place)), lambda place: place.state(**after))
    strike_everywhere(lambda: Case(url, tmp_path.as_uri()), struck, kind, lasts=lasts)
