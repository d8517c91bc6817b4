"""Every verb, struck wherever it commits: all of it or nothing, and the caller is told no lie."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import product

import pytest

from deltasql.errors import DatabaseError
from tests.faults.matrix.cases import Case, strike_everywhere
from tests.faults.matrix.outcomes import Answer, Told
from tests.faults.matrix.own_failures import AFTERWARDS, fail_afterwards, fail_objects
from tests.faults.matrix.striking import Kind, Strike, striking
from tests.faults.matrix.verbs import VERBS


@pytest.fixture(scope="module")
def server_of(postgres_server, pgbouncer) -> Iterator[Callable[[str], str]]:
    """The address of one PostgreSQL database for all cases, straight and through the pooler."""
    postgres_server.create_database("matrix")
    known = {"postgres": postgres_server.url("matrix"), "pgbouncer": pgbouncer.url("matrix")}
    yield known.__getitem__
    postgres_server.drop_database("matrix")


@pytest.fixture
def case(request, tmp_path):
    """A new case in a database of the kind; embedded ones are each test's own."""

    def make(kind: str) -> Case:
        if kind in ("sqlite", "duckdb"):
            url = f"{kind}:///{tmp_path / 'lake.db'}"
        else:
            url = request.getfixturevalue("server_of")(kind)
        return Case(url, (tmp_path / "lake").as_uri())

    return make


FULL = float(os.environ.get("DELTASQL_STRESS", "0.1")) >= 1
ALL = list(product(Kind, (False, True)))
# Each kind, and both lengths of the worst; the rest is for the full test.
SOME = [
    (Kind.LOST_AFTER, False),
    (Kind.LOST_AFTER, True),
    (Kind.FATAL_AFTER, False),
    (Kind.REFUSED, False),
]
POSTGRES = pytest.param("postgres", marks=pytest.mark.postgres)
POOLED = pytest.param("pgbouncer", marks=pytest.mark.postgres)
KINDS = pytest.mark.parametrize("kind", ["sqlite", "duckdb", POSTGRES])


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", ["sqlite", "duckdb", POSTGRES, POOLED])
@pytest.mark.parametrize("verb", VERBS)
def test_struck_where_it_commits(case, kind, verb):
    for what, lasts in ALL if FULL else SOME:
        strike_everywhere(lambda: case(kind), VERBS[verb], what, lasts=lasts)


@KINDS
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("where", AFTERWARDS)
def test_own_code_fails_after_the_commit(case, kind, verb, where, monkeypatch):
    """What comes after a commit may fail; the commit has happened, and its files stay."""
    found = case(kind)
    with found.place() as place:
        fail_afterwards(monkeypatch, place, where)
        answer = Answer.of(lambda: VERBS[verb].run(place))
        monkeypatch.undo()
    assert answer.told is not Told.REFUSED, answer.error
    found.check(answer, VERBS[verb])


@KINDS
@pytest.mark.parametrize("verb", sorted(VERBS.keys() - {"adopt", "release"}))
def test_object_store_fails_at_the_mirror(case, kind, verb, monkeypatch):
    """The mirror is late then; the commit stands."""
    found = case(kind)
    failed = fail_objects(monkeypatch, lambda call: call.path.startswith("_delta_log/"))
    with found.place(**{"mirror.mode": "sync", "mirror.sync_timeout": "200ms"}) as place:
        answer = Answer.of(lambda: VERBS[verb].run(place))
    monkeypatch.undo()
    assert failed
    assert answer.told is Told.DONE, answer.error
    found.check(answer, VERBS[verb])


@KINDS
@pytest.mark.parametrize("verb", ["append", "overwrite where", "transaction"])
def test_delete_fails_while_files_are_discarded(case, kind, verb, monkeypatch):
    """The caller hears why the commit failed, not why its files could not be deleted."""
    found = case(kind)
    failed = fail_objects(monkeypatch, lambda call: call.verb == "delete")
    with striking(Strike(Kind.REFUSED, 0)) as striker, found.place() as place:
        striker.is_armed = True
        answer = Answer.of(lambda: VERBS[verb].run(place))
        striker.is_armed = False
    monkeypatch.undo()
    assert striker.has_struck
    assert failed
    assert isinstance(answer.error, DatabaseError | None)
    found.check(answer, VERBS[verb])
