"""The fault matrix for Spark SQL: every statement that writes × every point of failure."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from tests.faults.matrix.cases import SOON, Case
from tests.faults.matrix.outcomes import Answer, Told
from tests.faults.matrix.own_failures import AFTERWARDS, fail_afterwards, fail_objects
from tests.faults.matrix.striking import Kind, Strike, striking
from tests.faults.matrix.verbs import SCHEMA, Verb
from tests.sizes import FULL, each_value
from tests.spark.sql.struck import STATEMENTS, Session, Statement, answer_of

DATABASES = ("sqlite", "duckdb", "postgres")
ALL = list(product(DATABASES, Kind, (False, True)))
# Each database, each kind and both lengths, spread over the statements; that the database goes
# right after it has answered is what each statement has code of its own for.
SOME = [
    ("sqlite", Kind.LOST_BEFORE, False),
    ("postgres", Kind.LOST_AFTER, False),
    ("sqlite", Kind.LOST_AFTER, True),
    ("duckdb", Kind.REFUSED, False),
    ("postgres", Kind.FATAL_AFTER, True),
]
STRUCK = (
    list(product(STATEMENTS, ALL))
    if FULL
    else [
        *each_value(tuple(STATEMENTS), SOME),
        *((name, ("sqlite", Kind.LOST_NEXT, True)) for name in STATEMENTS),
    ]
)
MOST_POINTS = 20


def _marked(*items: tuple[Any, ...]) -> list[Any]:
    """Parameters, the second of which is a database."""
    return [
        pytest.param(*item, marks=[pytest.mark.postgres] * (item[1] == "postgres"))
        for item in items
    ]


class Struck:
    """A statement of a case, and what became of it."""

    def __init__(self, spark, request, tmp_path, name: str, database: str) -> None:
        self._spark = spark
        self.statement: Statement = STATEMENTS[name]
        self.case = Case(request.getfixturevalue(f"{database}_url"), tmp_path.as_uri())

    def run(self, place) -> Answer:
        session = Session(self._spark, place)
        return answer_of(lambda: self.statement.run(session))

    def check(self, answer: Answer) -> None:
        after = self.statement.after
        self.case.check(answer, Verb(lambda _: None, lambda place: place.state(**after)))
        happened = self.statement.has_happened
        if happened is not None and answer.told is not Told.UNKNOWN:
            with self.case.place() as place:
                assert happened(place) == (answer.told is Told.DONE), answer.error


@pytest.mark.parametrize(
    ("name", "database", "kind", "lasts"), _marked(*((name, *strike) for name, strike in STRUCK))
)
def test_struck_where_it_commits(spark, request, tmp_path, name, database, kind, lasts):
    # On PostgreSQL also a question is a commit point; elsewhere the first one is the statement's.
    is_searched = FULL or database == "postgres"
    for at in range(MOST_POINTS if is_searched else 1):
        strike, struck = Strike(kind, at, lasts), Struck(spark, request, tmp_path, name, database)
        patience = {"sql.timeout": SOON} if lasts else {}
        with striking(strike) as striker, struck.case.known_place(**patience) as place:
            striker.is_armed = True
            answer = struck.run(place)
            striker.is_armed = False
        try:
            struck.check(answer)
        except AssertionError as error:
            raise AssertionError(f"{strike}: {error} (told {answer.error})") from error
        if not striker.has_struck:
            assert at > 0, "the statement committed nothing"
            break
        print(f"{strike}: {answer.told.name}")


@pytest.mark.parametrize(
    ("name", "database", "where"),
    _marked(
        *(
            (name, *point)
            for name, point in each_value(
                tuple(STATEMENTS), list(product(DATABASES, (*AFTERWARDS, "objects")))
            )
        )
    ),
)
def test_what_follows_the_commit_fails(
    spark, request, tmp_path, monkeypatch, name, database, where
):
    """Our own code, the mirror, or the object store that it writes to: the commit stands."""
    struck = Struck(spark, request, tmp_path, name, database)
    settings = {"mirror.mode": "sync", "mirror.sync_timeout": "200ms"}
    with struck.case.place(**settings) as place:
        if where == "objects":
            fail_objects(place, lambda call: call.path.startswith("_delta_log/"))
        else:
            fail_afterwards(monkeypatch, place, where)
        answer = struck.run(place)
        monkeypatch.undo()
    assert answer.told is Told.DONE, answer.error
    struck.check(answer)


@pytest.mark.parametrize("name", ["transaction", "transaction in SQL"])
def test_delete_fails_while_files_are_discarded(spark, request, tmp_path, name):
    """The caller hears why the commit failed; files of single statements are vacuum's."""
    struck = Struck(spark, request, tmp_path, name, "sqlite")
    with striking(Strike(Kind.REFUSED, 0)) as striker, struck.case.known_place() as place:
        failed = fail_objects(place, lambda call: call.verb == "delete")
        striker.is_armed = True
        answer = struck.run(place)
        striker.is_armed = False
    assert striker.has_struck
    assert failed
    assert "disk is full" in str(answer.error)
    struck.check(answer)


NO_TIMES = "TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'false')"


@pytest.mark.parametrize("is_taken", [False, True])
def test_refused_creation_leaves_no_files(spark, request, tmp_path, monkeypatch, is_taken):
    """No vacuum would find them: there is no table at their place."""
    struck = Struck(spark, request, tmp_path, "create as", "sqlite")
    options = "" if is_taken else NO_TIMES
    statement = f"CREATE TABLE {{new}} {options} AS SELECT 3L AS id, 'x' AS p"
    with struck.case.place() as place:
        before = set(tmp_path.rglob("*.parquet"))
        if is_taken:
            _create_meanwhile(monkeypatch, place)
        answer = answer_of(lambda: Session(spark, place).sql(statement))
        assert answer.told is Told.REFUSED, answer.error
        assert set(tmp_path.rglob("*.parquet")) == before
        known = [table.name for table in place.lake.tables()]
        assert (place.name("new") in known) == is_taken


def _create_meanwhile(monkeypatch, place) -> None:
    """Another writer has the name, after the rows are written and before they are committed."""
    name, create_with = place.name("new"), place.lake.create_with

    def create(*arguments: Any, **options: Any) -> Any:
        monkeypatch.undo()
        place.lake.create_table(name, SCHEMA, location=f"{place.lake.location}/elsewhere")
        return create_with(*arguments, **options)

    monkeypatch.setattr(place.lake, "create_with", create)
