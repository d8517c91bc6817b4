"""Every verb, struck wherever it commits: all of it or nothing, and the caller is told no lie."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from deltasql.errors import DatabaseError
from tests.faults.matrix.cases import Case, strike_everywhere
from tests.faults.matrix.outcomes import Answer, Told
from tests.faults.matrix.own_failures import AFTERWARDS, fail_afterwards, fail_objects
from tests.faults.matrix.striking import Kind, Strike, striking
from tests.faults.matrix.verbs import VERBS
from tests.sizes import each_value, pairwise

EMBEDDED = ("sqlite", "duckdb")


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
        if kind in EMBEDDED:
            url = f"{kind}:///{tmp_path / 'lake.db'}"
        else:
            url = request.getfixturevalue("server_of")(kind)
        return Case(url, (tmp_path / "lake").as_uri())

    return make


DATABASES = ("sqlite", "duckdb", "postgres")


def _cases(chosen: Iterable[tuple[Any, ...]]) -> list[Any]:
    """As parameters, the first of which is a kind of database."""
    served = pytest.mark.postgres
    return [pytest.param(*case, marks=[served] * (case[0] not in EMBEDDED)) for case in chosen]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("kind", "verb", "what", "lasts"),
    _cases(pairwise((*DATABASES, "pgbouncer"), tuple(VERBS), tuple(Kind), (False, True))),
)
def test_struck_where_it_commits(case, kind, verb, what, lasts):
    strike_everywhere(lambda: case(kind), VERBS[verb], what, lasts=lasts)


@pytest.mark.parametrize(
    ("kind", "verb", "where"), _cases(pairwise(DATABASES, tuple(VERBS), tuple(AFTERWARDS)))
)
def test_own_code_fails_after_the_commit(case, kind, verb, where, monkeypatch):
    """What comes after a commit may fail; the commit has happened, and its files stay."""
    found = case(kind)
    with found.place() as place:
        fail_afterwards(monkeypatch, place, where)
        answer = Answer.of(lambda: VERBS[verb].run(place))
        monkeypatch.undo()
    assert answer.told is not Told.REFUSED, answer.error
    found.check(answer, VERBS[verb])


@pytest.mark.parametrize(
    ("kind", "verb"), _cases(each_value(DATABASES, sorted(VERBS.keys() - {"adopt", "release"})))
)
def test_object_store_fails_at_the_mirror(case, kind, verb):
    """The mirror is late then; the commit stands."""
    found = case(kind)
    with found.place(**{"mirror.mode": "sync", "mirror.sync_timeout": "200ms"}) as place:
        failed = fail_objects(place, lambda call: call.path.startswith("_delta_log/"))
        answer = Answer.of(lambda: VERBS[verb].run(place))
    assert failed
    assert answer.told is Told.DONE, answer.error
    found.check(answer, VERBS[verb])


@pytest.mark.parametrize(
    ("kind", "verb"), _cases(each_value(DATABASES, ("append", "overwrite where", "transaction")))
)
def test_delete_fails_while_files_are_discarded(case, kind, verb):
    """The caller hears why the commit failed, not why its files could not be deleted."""
    found = case(kind)
    with striking(Strike(Kind.REFUSED, 0)) as striker, found.known_place() as place:
        failed = fail_objects(place, lambda call: call.verb == "delete")
        striker.is_armed = True
        answer = Answer.of(lambda: VERBS[verb].run(place))
        striker.is_armed = False
    assert striker.has_struck
    assert failed
    assert isinstance(answer.error, DatabaseError | None)
    found.check(answer, VERBS[verb])
