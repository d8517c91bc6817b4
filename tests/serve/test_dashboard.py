"""The dashboard's other sides: signing in, readers, long lists, and a mirror in trouble."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest
from playwright.sync_api import expect

from deltasql.serve.tokens import new_token
from tests.faults.waiting import until
from tests.serve.browsing import LOOK, SOUND, watched_page
from tests.serve.conftest import seed, start

WAYS = [(scheme, width) for scheme in ("light", "dark") for width in (390, 1280)]
NUMBERS = pa.schema([("id", pa.int64())])
FULL_HOUSE = 52


def look(page, path):
    """The page as everybody sees it: light and dark, narrow and wide."""
    for scheme, width in WAYS:
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": 900})
        page.goto(path)
        assert page.evaluate(LOOK) == SOUND, (path, scheme, width)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("signing-in")
    seed(folder)
    tokens, text = {}, ""
    for name, kind, more in (("ana", "operate", ""), ("local", "read", ""),
                             ("sales", "read", 'schemas = ["sales"]')):  # fmt: skip
        tokens[name], digest = new_token()
        text += f'[[tokens]]\nname = "{name}"\nkind = "{kind}"\nsha256 = "{digest}"\n{more}\n'
    (folder / "tokens.toml").write_text(text)
    found = start(folder, "--token-file", "tokens.toml")
    found.tokens = tokens
    yield found
    found.http.close()
    assert found.stop() == 0


def sign_in(page, token):
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Sign in").click()


def test_signing_in_and_out(browser, guarded):
    with watched_page(browser, guarded.address) as page:
        look(page, "/login")
        page.goto("/tables/sales.orders/files")
        sign_in(page, "dsql_wrong")
        expect(page.get_by_role("alert")).to_contain_text("not accepted")
        assert page.evaluate(LOOK) == SOUND
        sign_in(page, guarded.tokens["ana"])
        expect(page.locator("h1")).to_have_text("sales.orders")
        expect(page).to_have_url(re.compile("/tables/sales.orders/files$"))
        expect(page.locator("footer")).to_contain_text("as ana, operate")
        page.get_by_role("link", name="Versions").click()
        page.get_by_role("button", name="Check").click()
        expect(page.locator("#jobs .badge.good")).to_be_visible(timeout=15_000)
        expect(page.locator("#jobs")).to_contain_text("by ana")
        page.get_by_role("button", name="Sign out").click()
        expect(page.locator("h1")).to_have_text("Sign in")
        page.goto("/")
        expect(page.locator("h1")).to_have_text("Sign in")


def test_behind_a_proxy_with_tls_the_cookie_is_for_tls_alone(guarded):
    form = {"token": guarded.tokens["ana"]}
    host = str(guarded.http.base_url.netloc, "ascii")
    for scheme in ("http", "https"):
        own = {"Origin": f"{scheme}://{host}", "Sec-Fetch-Site": "same-origin"}
        answer = guarded.http.post("/login", data=form, headers=own)
        assert answer.status_code == 303
        assert ("secure" in answer.headers["set-cookie"].lower()) == (scheme == "https")
    guarded.http.cookies.clear()


def test_a_reader_has_no_buttons_that_change_something(browser, guarded):
    with watched_page(browser, guarded.address) as page:
        page.goto("/")
        # Whatever the name of a token, its owner can sign out.
        sign_in(page, guarded.tokens["local"])
        expect(page.get_by_role("button", name="Sign out")).to_be_visible()
        page.goto("/tables/sales.orders")
        for name in ("Validate", "Repair", "Check", "Pause"):
            assert page.get_by_role("button", name=name).count() == 0
        look(page, "/tables/sales.orders")


def test_a_visitor_of_one_schema(browser, guarded):
    with watched_page(browser, guarded.address) as page:
        page.goto("/")
        sign_in(page, guarded.tokens["sales"])
        expect(page.locator("#tables tbody tr")).to_have_count(2)
        assert page.locator("#tiles, #activity, #sessions").count() == 0
        look(page, "/")
        page.goto("/tables/hr.people")
        expect(page.locator("h1")).to_contain_text("hr.people")
        assert page.locator("#versions").count() == 0


def test_lists_of_more_than_a_page(browser, service):
    with service.lake() as lake:
        many = lake.create_table("many.versions", NUMBERS)
        for number in range(FULL_HOUSE):
            many.append(pa.table({"id": [number]}))
        for number in range(FULL_HOUSE):
            lake.create_table(f"many.t{number:03d}", NUMBERS)
    with watched_page(browser, service.address) as page:
        path = "/tables/many.versions"
        page.goto(path)
        rows = page.locator("#versions tbody tr")
        assert rows.count() == 50
        page.get_by_role("link", name="Older").click()
        expect(rows).to_have_count(3)
        expect(rows.nth(2)).to_contain_text("CREATE TABLE")
        look(page, page.url)
        page.get_by_role("link", name="Newest").click()
        expect(rows).to_have_count(50)
        page.goto(f"{path}/files")
        files = page.locator("tbody tr")
        first = files.nth(0).inner_text()
        page.get_by_role("link", name="More").click()
        expect(files).to_have_count(2)
        page.get_by_role("link", name="First page").click()
        expect(files).to_have_count(50)
        assert files.nth(0).inner_text() == first
        page.goto("/?search=many.")
        tables = page.locator("#tables tbody tr")
        expect(tables).to_have_count(50)
        page.get_by_role("link", name="More").click()
        expect(tables).to_have_count(3)
        look(page, page.url)
        page.get_by_role("link", name="First page").click()
        expect(tables).to_have_count(50)
        page.goto("/audit")
        entries = page.locator("#entries tbody tr")
        expect(entries).to_have_count(100)
        page.get_by_role("link", name="Older").click()
        expect(entries.nth(0)).to_be_visible()
        page.get_by_role("link", name="Newest").click()
        expect(entries).to_have_count(100)


def test_a_mirror_in_trouble_is_told_and_mended(browser, service):
    """A foreign file in the way of the next version: told on both pages, until it is gone."""
    with service.lake() as lake:
        table = lake.create_table("odd.trouble", NUMBERS)
        until(lambda: table.mirror.status().mirrored_version == 0)
        foreign = service.folder / "lake/odd/trouble/_delta_log/00000000000000000001.json"
        table.mirror.pause()
        table.append(pa.table({"id": [1]}))
        foreign.write_text("{}")
        table.mirror.resume()
        until(lambda: "odd.trouble" in service.http.get("/").text.partition("Needs a look")[2])
    with watched_page(browser, service.address) as page:
        look(page, "/")
        page.goto("/")
        expect(page.locator("#late")).to_contain_text("odd.trouble", timeout=20_000)
        page.locator("#late a.name").click()
        expect(page.get_by_role("alert")).to_contain_text(
            "differs from what SQL has", timeout=20_000
        )
        look(page, "/tables/odd.trouble")
        page.get_by_role("button", name="Repair").click()
        job = page.locator("#jobs li").nth(0)
        expect(job).to_contain_text("in the way", timeout=20_000)
        assert foreign.read_text() == "{}"
        foreign.unlink()
        page.get_by_role("button", name="Repair").click()
        expect(page.locator("#badges")).to_contain_text("up to date", timeout=20_000)
        page.goto("/")
        assert page.locator("#late", has_text="odd.trouble").count() == 0


def test_what_is_longest_fits_everywhere(browser, service):
    """Long words in the state of a version and of a job, and names of people and places."""
    with service.lake() as lake:
        table = lake.create_table("odd.long", NUMBERS)
        signed = {"userName": "etl-nightly@a-rather-long-host.example"}
        for number in range(10):
            table.append(pa.table({"id": [number]}), commit_metadata=signed)
        until(lambda: table.mirror.status().mirrored_version == 10)
        until(lambda: "checkpoint" in service.http.get("/tables/odd.long").text)
    lost = service.folder / "lake/odd/long/_delta_log/00000000000000000003.json"
    content = lost.read_bytes()
    lost.unlink()
    service.http.post("/api/v1/tables/odd.long/validate")
    until(lambda: "found something" in service.http.get("/tables/odd.long").text)
    with watched_page(browser, service.address) as page:
        look(page, "/tables/odd.long")
        look(page, "/audit")
        page.goto("/tables/odd.long")
        spots = page.locator("#plots svg").nth(0).locator("rect title").all_text_contents()
        assert spots[-2:] == ["version 9: 9", "version 10: 10"]
    lost.write_bytes(content)


def test_figures_name_the_version_that_they_are_of(browser, service):
    """Files and bytes are those of the mirror, which may lag behind the version beside them."""
    with service.lake() as lake, watched_page(browser, service.address) as page:
        table = lake.create_table("odd.paused", NUMBERS)
        table.append(pa.table({"id": [1]}))
        until(lambda: table.mirror.status().mirrored_version == 1)
        page.goto("/tables/odd.paused")
        expect(page.locator("#badges")).to_contain_text("1 file")
        expect(page.locator("#badges")).not_to_contain_text("at version")
        table.mirror.pause()
        table.append(pa.table({"id": [1]}))
        look(page, "/tables/odd.paused")
        expect(page.locator("#badges")).to_contain_text("version 2")
        expect(page.locator("#badges")).to_contain_text("B at version 1")
        table.mirror.resume()


def test_an_open_page_follows_what_happens(browser, service):
    """Alerts come and go on it without a click: it may hang on a wall."""
    with service.lake() as lake, watched_page(browser, service.address) as page:
        table = lake.create_table("odd.sudden", NUMBERS)
        foreign = service.folder / "lake/odd/sudden/_delta_log/00000000000000000001.json"
        until(lambda: table.mirror.status().mirrored_version == 0)
        until(lambda: "odd.sudden" not in service.http.get("/").text.partition("Commits in")[0])
        page.goto("/?search=odd.")
        expect(page.locator("#tables")).to_contain_text("odd.sudden")
        context = page.context.new_page()
        context.goto("/tables/odd.sudden")
        expect(context.get_by_role("alert")).to_have_count(0)
        table.mirror.pause()
        table.append(pa.table({"id": [1]}))
        foreign.write_text("{}")
        table.mirror.resume()
        expect(page.locator("#late")).to_contain_text("odd.sudden", timeout=30_000)
        expect(page.locator("#state")).to_contain_text("a look")
        row = page.locator("#tables tr", has_text="odd.sudden")
        expect(row.locator(".badge.bad")).to_have_text("failed", timeout=15_000)
        expect(context.get_by_role("alert")).to_contain_text("differs", timeout=30_000)
        foreign.unlink()
        table.mirror.repair()
        expect(page.locator("#late")).not_to_contain_text("odd.sudden", timeout=30_000)
        expect(row.locator(".badge.good")).to_be_visible(timeout=15_000)
        expect(context.get_by_role("alert")).to_have_count(0, timeout=30_000)
        # Two versions have a line; there was no place for it when the page was opened.
        expect(context.locator("#plots path.line")).to_have_count(2, timeout=30_000)


def test_pages_of_one_version_are_not_made_again(browser, service):
    """Rows would be read from their files again and again, for a badge."""
    with watched_page(browser, service.address) as page:
        for part in ("rows", "files", "schema"):
            page.goto(f"/tables/sales.orders/{part}")
            with page.expect_request(re.compile("/tables/"), timeout=15_000) as asked:
                pass
            assert asked.value.url.endswith("/tables/sales.orders")


def test_a_mirror_that_drifted_is_told(browser, tmp_path):
    """By the worker's own look: a foreign file that is in nobody's way."""
    seed(tmp_path)
    quick = ["mirror.validate_interval=500ms", "mirror.poll_interval=200ms",
             "mirror.reconcile_interval=1s"]  # fmt: skip
    running = start(tmp_path, *(part for item in quick for part in ("--set", item)))
    foreign = tmp_path / "lake/sales/orders/_delta_log/00000000000000000099.json"
    try:
        with watched_page(browser, running.address) as page:
            page.goto("/")
            expect(page.locator("#state")).to_contain_text("up to date")
            foreign.write_text("{}\n")
            expect(page.locator("#late")).to_contain_text("sales.orders", timeout=30_000)
            look(page, "/")
            page.locator("#late a.name").click()
            expect(page.get_by_role("alert")).to_contain_text("drifted")
            look(page, "/tables/sales.orders")
            foreign.unlink()
            expect(page.get_by_role("alert")).to_have_count(0, timeout=30_000)
    finally:
        running.http.close()
        assert running.stop() == 0


def test_a_transaction_and_a_table_that_is_only_read(browser, service):
    entries = service.http.get("/api/v1/audit?limit=1000").json()["entries"]
    moved = next(item["version"] for item in entries if item["version"]["transaction_id"])
    with service.lake() as lake:
        lake.create_table("odd.released", NUMBERS).release()
    with watched_page(browser, service.address) as page:
        look(page, f"/transactions/{moved['transaction_id']}")
        look(page, "/tables/odd.released")
        expect(page.locator("#badges")).to_contain_text("read only")
