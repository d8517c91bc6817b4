"""Pages that many look at: made once for those with the same rights, and never outdated for the
one who has just changed something.
"""

from __future__ import annotations

import asyncio
import re

import pytest

from deltasql.serve import sharing
from deltasql.serve.sharing import Page, Shared
from deltasql.serve.tokens import new_token
from tests.serve.conftest import seed, start

PAGES = ["/", "/audit", "/tables/sales.orders", "/tables/sales.orders/files",
         "/tables/sales.orders/partitions"]  # fmt: skip
TOKENS = {
    "operator": ("operate", None),
    "reader": ("read", None),
    "of-sales": ("read", ["sales"]),
    "of-hr": ("read", ["hr"]),
}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("guarded")
    seed(folder)
    entries, tokens = [], {}
    for name, (kind, schemas) in TOKENS.items():
        tokens[name], digest = new_token()
        limit = "" if schemas is None else f"schemas = {schemas}\n"
        entries.append(
            f'[[tokens]]\nname = "{name}"\nkind = "{kind}"\nsha256 = "{digest}"\n{limit}'
        )
    (folder / "tokens.toml").write_text("\n".join(entries))
    running = start(folder, "--token-file", str(folder / "tokens.toml"))
    running.tokens = tokens
    yield running
    running.http.close()
    assert running.stop() == 0


@pytest.mark.parametrize("path", PAGES)
def test_whoever_looks_first_nobody_sees_more_than_they_may(guarded, path):
    """In turns without a pause, so that each finds what was made for the others."""
    for _ in range(3):
        for name in TOKENS:
            answer = guarded.http.get(path, headers=guarded.bearer(name))
            if path.startswith("/tables/") and name == "of-hr":
                assert answer.status_code == 404
                continue
            assert answer.status_code == 200
            assert f"as {name}," in answer.text
            shown = set(re.findall(r'href="/tables/(hr|sales)\.', answer.text))
            if path in ("/", "/audit"):
                allowed = {"of-sales": {"sales"}, "of-hr": {"hr"}}
                assert shown == allowed.get(name, {"hr", "sales"})
            assert ("Validate" in answer.text) == (name == "operator" and "tables" in path)


@pytest.mark.parametrize("path", PAGES)
def test_what_has_not_changed_is_not_sent_again(guarded, path):
    mine = guarded.bearer("reader")
    first = guarded.http.get(path, headers=mine)
    tag = first.headers["etag"]
    same = guarded.http.get(path, headers={**mine, "If-None-Match": tag})
    if same.status_code == 200:
        # Somewhere it said how many seconds ago something was.
        assert same.headers["etag"] != tag
        assert same.text != first.text
    else:
        assert (same.status_code, same.content) == (304, b"")
    # The tag is no key: without the right to see the page it says nothing.
    for headers in ({}, {"Authorization": "Bearer wrong"}):
        refused = guarded.http.get(path, headers={**headers, "If-None-Match": tag})
        assert refused.status_code == 303
    other = guarded.http.get(path, headers={**guarded.bearer("of-hr"), "If-None-Match": tag})
    assert other.status_code == (404 if "tables" in path else 200)


def test_who_changes_something_sees_it_at_once(guarded):
    mine = guarded.bearer("operator")
    page = "/tables/sales.customers"
    for turn in range(20):
        action = "resume" if turn % 2 else "pause"
        for path in ("/", page):
            guarded.http.get(path, headers=mine)
        done = guarded.http.post(f"{page}/mirror/{action}", headers=mine)
        assert done.status_code == 303
        told = guarded.http.get(page, headers=mine).text
        assert (">Resume</button>" in told) == (action == "pause")
        assert (">paused</span>" in guarded.http.get("/", headers=mine).text) == (turn % 2 == 0)


def test_what_was_begun_before_a_change_is_not_given_after_it():
    async def run() -> list[bytes]:
        shared: Shared[Page] = Shared()
        gate, made = asyncio.Event(), []
        loop = asyncio.get_running_loop()

        def old() -> Page:
            asyncio.run_coroutine_threadsafe(gate.wait(), loop).result(10)
            made.append("old")
            return Page(b"old")

        waiting = asyncio.create_task(shared.get("key", old))
        await asyncio.sleep(0.05)
        shared.forget()
        fresh = await shared.get("key", lambda: Page(b"new"))
        gate.set()
        late = await waiting
        again = await shared.get("key", lambda: Page(b"new"))
        assert made == ["old"]
        return [fresh.body, late.body, again.body]

    assert asyncio.run(run()) == [b"new", b"old", b"new"]


def test_ever_new_questions_take_no_more_places_than_there_are(monkeypatch):
    monkeypatch.setattr(sharing, "_KEPT", 8)
    # Nothing becomes stale.
    monkeypatch.setattr(sharing, "_WORTH", 1e9)

    async def run() -> None:
        shared: Shared[int] = Shared()
        for number in range(50):
            assert await shared.get(number, lambda number=number: number) == number
            assert len(shared._made) <= 8
        # The newest are kept.
        assert await shared.get(49, lambda: -1) == 49

    asyncio.run(run())


def test_programs_that_commit_do_not_make_the_pages_anew(guarded):
    """With many of them nothing would be shared any more."""
    mine = guarded.bearer("operator")
    path = "/api/v1/tables/hr.people/commits"
    for number in range(200):
        before = guarded.http.get("/", headers=mine)
        body = {"actions": [{"txn": {"appId": "many", "version": number}}]}
        assert guarded.http.post(path, headers=mine, json=body).status_code == 201
        after = guarded.http.get("/", headers=mine)
        if after.headers["etag"] == before.headers["etag"]:
            return
    pytest.fail("each commit made the page anew")
