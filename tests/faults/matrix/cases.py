"""One verb, struck: two tables of its own, and what came of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import count

import deltasql
from tests.faults.matrix.outcomes import Answer, check, state_of
from tests.faults.matrix.striking import Kind, Strike, striking
from tests.faults.matrix.verbs import Place, Verb, rows

# A database that stays away is given up on soon; one that is there may be slow on a busy machine.
SOON = "1s"
PLAIN = {"mirror.mode": "off"}
MOST_POINTS = 40
_spaces = count()


class Case:
    """Two tables of their own in a lake, and how they were before anything happened."""

    def __init__(self, url: str, location: str) -> None:
        self._url = url
        self._location = location
        self._space = f"s{next(_spaces)}"
        with self.lake() as lake:
            place = Place(lake, self._space)
            place.prepare()
            self.before = place.state()

    def lake(self, **settings: str) -> deltasql.Lake:
        return deltasql.connect(
            self._url, location=self._location, settings={**PLAIN, **settings}, committer="me"
        )

    @contextmanager
    def place(self, **settings: str) -> Iterator[Place]:
        with self.lake(**settings) as lake:
            yield Place(lake, self._space)

    @contextmanager
    def known_place(self, **settings: str) -> Iterator[Place]:
        """Of a process that has its row among the sessions: the next commit is the verb's own."""
        with self.place(**settings) as place:
            with place.lake.presence.writing():
                pass
            yield place

    def check(self, answer: Answer, verb: Verb) -> None:
        """By a client of its own; the tables have to be as good as new."""
        with self.place() as place:
            after = verb.after(place)
            check(answer, state_of(place.lake, place.names), before=self.before, after=after)
            place.table("b").append(rows(99))


def strike_everywhere(new_case: Callable[[], Case], verb: Verb, kind: Kind, *, lasts: bool) -> None:
    """The verb on tables of its own, once for each of its commit points."""
    for at in range(MOST_POINTS):
        case = new_case()
        if not _has_struck(case, case.place, verb, Strike(kind, at, lasts)):
            assert at > 0, "the verb committed nothing"
            return


def strike_its_commit(case: Case, verb: Verb, kind: Kind, *, lasts: bool) -> None:
    """The verb where it commits first, once."""
    assert _has_struck(case, case.known_place, verb, Strike(kind, 0, lasts)), "nothing committed"


def _has_struck(
    case: Case, place_of: Callable[..., AbstractContextManager[Place]], verb: Verb, strike: Strike
) -> bool:
    patience = {"sql.timeout": SOON} if strike.lasts else {}
    with striking(strike) as striker, place_of(**patience) as place:
        striker.is_armed = True
        answer = Answer.of(lambda: verb.run(place))
        striker.is_armed = False
    try:
        case.check(answer, verb)
    except AssertionError as error:
        raise AssertionError(f"{strike}: {error} (told {answer.error})") from error
    if striker.has_struck:
        print(f"{strike}: {answer.told.name}")
    return striker.has_struck
