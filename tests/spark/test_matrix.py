"""The fault matrix for PySpark: every verb that writes × every point of failure."""

from __future__ import annotations

from itertools import product

import pytest

import deltasql.spark
from deltasql.errors import DatabaseError
from tests.faults.matrix.cases import Case, strike_everywhere, strike_its_commit
from tests.faults.matrix.outcomes import Answer, Told
from tests.faults.matrix.own_failures import AFTERWARDS, fail_afterwards, fail_objects
from tests.faults.matrix.striking import Kind, Strike, striking
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
    "overwrite schema": (
        lambda s: s.db.write(
            s.session.sql("SELECT 3L AS id, 'x' AS q, 1 AS n"),
            s.place.name("a"),
            mode="overwrite",
            overwrite_schema=True,
            partition_by="q",
        ),
        {"a": (3,)},
    ),
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
DATABASES = ("sqlite", "duckdb", "postgres")
ALL = list(product(DATABASES, Kind, (False, True)))
# Each database, each kind and both lengths at least once, spread over the verbs: tests/faults has
# the pairs of them without Spark.
SOME = [
    ("sqlite", Kind.LOST_AFTER, False),
    ("sqlite", Kind.REFUSED, True),
    ("postgres", Kind.LOST_AFTER, True),
    ("postgres", Kind.FATAL_AFTER, False),
    ("duckdb", Kind.LOST_BEFORE, False),
]
# Each comes to its commit in a way of its own; what follows a commit is the same code for every
# verb and database, but for the state.
WAYS = tuple(CALLS) if FULL else ("append", "error", "merge", "transaction")
AFTER = (
    list(product(DATABASES, AFTERWARDS, CALLS))
    if FULL
    else [
        *(("sqlite", "state", verb) for verb in CALLS),
        *(("postgres", "mirror", verb) for verb in WAYS),
    ]
)


def _marked(*items: tuple) -> list:
    """Parameters, the first of which is a database."""
    return [
        pytest.param(*item, marks=[pytest.mark.postgres] * (item[0] == "postgres"))
        for item in items
    ]


def _struck(spark, verb: str) -> Verb:
    call, after = CALLS[verb]
    return Verb(lambda place: call(Spark(spark, place)), lambda place: place.state(**after))


@pytest.mark.parametrize(
    ("verb", "database", "kind", "lasts"),
    [
        pytest.param(verb, *strike, marks=[pytest.mark.postgres] * (strike[0] == "postgres"))
        for verb, strike in each_value(tuple(CALLS), ALL if FULL else SOME)
    ],
)
def test_struck_where_it_commits(spark, request, tmp_path, database, kind, lasts, verb):
    url = request.getfixturevalue(f"{database}_url")
    verb = _struck(spark, verb)
    if FULL or database == "postgres":
        # There a question is a commit point, too.
        strike_everywhere(lambda: Case(url, tmp_path.as_uri()), verb, kind, lasts=lasts)
    else:
        strike_its_commit(Case(url, tmp_path.as_uri()), verb, kind, lasts=lasts)


@pytest.mark.parametrize(("database", "where", "verb"), _marked(*AFTER))
def test_own_code_fails_after_the_commit(
    spark, request, tmp_path, monkeypatch, database, where, verb
):
    case = Case(request.getfixturevalue(f"{database}_url"), tmp_path.as_uri())
    with case.place() as place:
        fail_afterwards(monkeypatch, place, where)
        answer = Answer.of(lambda: _struck(spark, verb).run(place))
        monkeypatch.undo()
    assert answer.told is not Told.REFUSED, answer.error
    case.check(answer, _struck(spark, verb))


@pytest.mark.parametrize("verb", WAYS)
@pytest.mark.parametrize("database", _marked(*zip(DATABASES)) if FULL else ["sqlite"])
def test_object_store_fails_at_the_mirror(spark, request, tmp_path, database, verb):
    case = Case(request.getfixturevalue(f"{database}_url"), tmp_path.as_uri())
    with case.place(**{"mirror.mode": "sync", "mirror.sync_timeout": "200ms"}) as place:
        failed = fail_objects(place, lambda call: call.path.startswith("_delta_log/"))
        answer = Answer.of(lambda: _struck(spark, verb).run(place))
    assert failed
    assert answer.told is Told.DONE, answer.error
    case.check(answer, _struck(spark, verb))


# A creation is sent again instead: without a table there is no head to ask under.
@pytest.mark.parametrize("verb", [verb for verb in CALLS if verb not in ("error", "ignore")])
def test_delete_fails_while_files_are_discarded(spark, sqlite_url, tmp_path, verb):
    """The caller hears why the commit failed, not why its files could not be deleted."""
    case = Case(sqlite_url, tmp_path.as_uri())
    with striking(Strike(Kind.REFUSED, 0)) as striker, case.known_place() as place:
        failed = fail_objects(place, lambda call: call.verb == "delete")
        striker.is_armed = True
        answer = Answer.of(lambda: _struck(spark, verb).run(place))
        striker.is_armed = False
    assert striker.has_struck
    assert failed
    assert isinstance(answer.error, DatabaseError)
    assert "disk is full" in str(answer.error)
    case.check(answer, _struck(spark, verb))
