"""A client killed at any step of a commit leaves all of it or nothing, and a retry tells which."""

from __future__ import annotations

import signal
from dataclasses import dataclass, replace
from itertools import count, product
from pathlib import Path

import pytest

import deltasql
from deltasql.commit import CommitRequest
from deltasql.commit.request import propose
from deltasql.errors import TableNotFoundError
from deltasql.spec import codec
from deltasql.store.interface import Committed
from tests.faults.dying import NEW_TABLE, commit_and_die, requests_of
from tests.faults.waiting import blocked, until, within
from tests.sizes import FULL
from tests.stress import history, swarm
from tests.stress.database import query
from tests.stress.journal import Journal, Told
from tests.stress.writers import SCHEMA, create_tables, new_add

POSTGRES = pytest.param("postgres", marks=pytest.mark.postgres)
KILLED = -signal.SIGKILL
MOST_STEPS = 60
KINDS = ("append", "replace", "large", "several")
# Each step is a process.
pytestmark = pytest.mark.timeout(400)


@dataclass
class Victims:
    """Clients of one lake that die, and what is left behind."""

    url: str
    location: str
    journal: Journal
    landed: int = 0
    lost: int = 0

    def connect(self) -> deltasql.Lake:
        return deltasql.connect(self.url, location=self.location)

    def place_of(self, step: int, kind: str) -> int:
        """In SQLite the rows of a large commit are steps, too: not every one is taken."""
        few = 6
        if kind != "large" or not self.url.startswith("sqlite") or step < few:
            return step
        return few + (step - few) * 400

    def prepare(self, kind: str, tag: str) -> int:
        """Write the intent down, and whatever the commit will remove; returns the base."""
        with self.connect() as lake:
            name = next(table.name for table in lake.tables() if table.name.startswith("stress."))
            table = lake.table(name)
            if kind == "replace":
                self._commit_old(table, tag)
            base = table.version
            if kind == "several":
                # All tables are at one version, because nothing else is committed to them.
                assert {head.version for head in lake.store.heads().values()} == {base}
            requests = requests_of(lake, kind, tag, base)
            self.journal.begin(
                kind,
                {
                    request.table_name: [codec.to_wire(action) for action in request.actions]
                    for request in requests
                },
                tag=tag,
                transaction=requests[0].transaction_id,
            )
        return base

    def _commit_old(self, table: deltasql.Table, tag: str) -> None:
        old = replace(new_add(tag, 0), path=f"{tag}/old/0")
        self.journal.begin("old", {table.name: [codec.to_wire(old)]}, tag=f"old-{tag}")
        request = replace(table.request([old], operation="WRITE"), committer=f"old-{tag}")
        done = table._lake.commits.commit(request)
        self.journal.done(f"old-{tag}", {table.name: done.version})

    def run(self, kind: str, tag: str, base: int, step: int, when: str) -> int:
        arguments = (self.url, self.location, kind, tag, base, step, when)
        child = swarm.start(commit_and_die, *arguments)
        child.join(60)
        assert child.exitcode in (0, KILLED)
        return child.exitcode

    def ask_again(self, kind: str, tag: str, base: int) -> bool:
        """Send the very same commit again; returns whether it had been in."""
        with self.connect() as lake:
            # A dead client's locks are gone with it.
            with within(4):
                requests = requests_of(lake, kind, tag, base)
                found = [lake.store.find_commit(r.table_id, r.commit_id) for r in requests]
                again = [_send_again(lake, request) for request in requests]
            assert len({item is None for item in found}) == 1, "a part of it is in"
            if found[0] is not None:
                assert again == found
        versions = {r.table_name: a.version for r, a in zip(requests, again, strict=True)}
        self.journal.done(tag, versions)
        self.landed += found[0] is not None
        self.lost += found[0] is None
        return found[0] is not None

    def check(self) -> None:
        print(history.check(self.url, self.location, Told.read(self.journal.path)))


def _send_again(lake: deltasql.Lake, request: CommitRequest) -> Committed:
    state = lake.states.refresh(request.table_id)
    outcome = lake.store.commit(propose(request, state), is_retry=True)
    assert isinstance(outcome, Committed)
    return outcome


@pytest.fixture
def victims(store_url: str, tmp_path: Path):
    location = tmp_path.joinpath("lake").as_uri()
    create_tables(store_url, location, 3)
    journal = Journal(tmp_path / "journal.jsonl")
    yield Victims(store_url, location, journal)
    journal.close()


@pytest.mark.parametrize(
    ("store_url", "kind"),
    [
        *product(["sqlite"], KINDS if FULL else ["append", "several"]),
        *product(["duckdb"], ["replace", "large"] if FULL else ["replace"]),
        # Clients that die in a large commit: test_large_commits.py.
        *(
            pytest.param("postgres", kind, marks=pytest.mark.postgres)
            for kind in KINDS
            if FULL or kind != "large"
        ),
    ],
    indirect=["store_url"],
)
def test_killed_at_every_step(victims, kind):
    steps = 0
    for step in count():
        assert step < MOST_STEPS
        tag = f"{kind}-{step}"
        base = victims.prepare(kind, tag)
        code = victims.run(kind, tag, base, victims.place_of(step, kind), "before")
        was_in = victims.ask_again(kind, tag, base)
        if code == 0:
            assert was_in
            break
        assert not was_in, "killed before its last step, and yet committed"
        steps += 1
    if not victims.url.startswith("sqlite"):
        tag = f"{kind}-after"
        base = victims.prepare(kind, tag)
        assert victims.run(kind, tag, base, steps - 1, "after") == KILLED
        assert victims.ask_again(kind, tag, base), "killed after its last step, and yet lost"
    print(f"{victims.url[:6]} {kind}: killed at {steps} steps")
    victims.check()


def test_killed_while_creating_a_table(victims):
    states = []
    while not states or states[-1] is False:
        step = len(states)
        code = victims.run("create", f"create-{step}", 0, step, "before")
        with victims.connect() as lake:
            heads = len(lake.store.heads())
            try:
                table = lake.table(NEW_TABLE)
            except TableNotFoundError:
                # Nothing of it is left, and its name is free.
                assert code == KILLED
                assert heads == 3
                states.append(False)
            else:
                assert heads == 4
                assert table.version == 0
                assert table.snapshot().schema.equals(SCHEMA)
                states.append(True)
    assert len(states) > 5
    assert query(victims.url, "SELECT count(*) FROM dl_table_versions") == [(4,)]
    assert query(victims.url, "SELECT count(*) FROM dl_mirror_status") == [(4,)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("store_url", [POSTGRES], indirect=True)
def test_killed_while_the_server_works(victims, kind):
    """The client dies when its statement is with the server, which goes on without it."""
    tag = f"{kind}-working"
    base = victims.prepare(kind, tag)
    with victims.connect() as lake:
        heads = list(lake.store.heads())
        with lake.store.locked(heads):
            arguments = (victims.url, victims.location, kind, tag, base, -1, "never")
            child = swarm.start(commit_and_die, *arguments)
            until(lambda: blocked(victims.url) == 1)
            child.kill()
            child.join()
        until(lambda: blocked(victims.url) == 0)
    victims.ask_again(kind, tag, base)
    victims.check()


@pytest.mark.parametrize("store_url", [POSTGRES], indirect=True)
def test_dead_clients_leave_no_locks(victims):
    """A transaction that died with its locks does not hold up the next one."""
    with victims.connect() as lake:
        base = victims.prepare("several", "dead")
        child = swarm.start(
            commit_and_die, victims.url, victims.location, "several", "dead", base, 4, "before"
        )
        child.join()
        assert child.exitcode == KILLED
        with within(4):
            table = lake.tables()[0]
            table.commit([new_add("next", 1)])
        assert table.snapshot().schema.equals(SCHEMA)
