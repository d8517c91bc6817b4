"""The dashboard in a real browser: every page, every button, light and dark, narrow and wide."""

from __future__ import annotations

import time
from urllib.parse import quote

import pyarrow as pa
import pytest
from playwright.sync_api import expect

from tests.serve.browsing import LOOK, SOUND, watched_page
from tests.serve.conftest import HOSTILE
from tests.sizes import FULL

ORDERS = "/tables/sales.orders"
ODD = f"/tables/{quote(HOSTILE, safe='')}"
PAGES = ["/", ORDERS, f"{ORDERS}/files", f"{ORDERS}/schema", f"{ORDERS}/rows",
         f"{ORDERS}/partitions", "/audit", "/none",
         ODD, f"{ODD}/files", f"{ODD}/schema", f"{ODD}/rows", f"{ODD}/partitions",
         "/tables/hr.people", "/tables/hr.people/partitions",
         "/tables/hr.people/files", "/tables/hr.people/rows", "/?search=nothing",
         "/tables/sales.customers/schema?version=2&other=0",
         f"{ORDERS}/files?where=id+%3C"]  # fmt: skip


@pytest.fixture
def page(browser, service):
    with watched_page(browser, service.address) as found:
        yield found


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_every_page_fits_and_can_be_read(page, scheme, width):
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 900})
    for path in PAGES:
        page.goto(path)
        assert page.evaluate(LOOK) == SOUND, path
        assert page.locator("h1").count() == 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_axe_finds_nothing(page, scheme, width):
    """All pages in all four ways by `make test-full`; else each page in one of them."""
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="axe is missing"
    ).Axe()
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    page.set_viewport_size({"width": width, "height": 900})
    first = [(390, "light"), (1280, "dark"), (390, "dark"), (1280, "light")].index((width, scheme))
    for path in PAGES if FULL else PAGES[first::4]:
        page.goto(path)
        found = axe.run(page).response["violations"]
        assert [(item["id"], [node["html"] for node in item["nodes"]]) for item in found] == [], (
            path
        )


def test_the_way_from_the_overview_to_a_transaction(page, service):
    page.goto("/")
    expect(page.locator("#tiles")).to_contain_text("Tables")
    assert page.locator("#activity rect.bar").count() >= 1
    page.get_by_label("Find a table").fill("order")
    page.keyboard.press("Enter")
    page.locator("#tables a.name").click()
    expect(page.locator("h1")).to_have_text("sales.orders")
    assert page.locator("#plots svg path.line").count() == 2
    assert page.locator("#versions tbody tr").count() == 8
    page.locator("#versions a[href^='/transactions/']").click()
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.nth(0)).to_contain_text("sales.customers")
    expect(rows.nth(1)).to_contain_text("sales.orders")
    page.get_by_role("link", name="Audit", exact=True).first.click()
    assert page.locator("#entries tbody tr").count() >= 10
    page.get_by_label("From").fill("2001-01-01")
    page.get_by_label("To").fill("2001-01-02")
    page.get_by_role("button", name="Show").click()
    expect(page.locator("#entries")).to_contain_text("Nothing was committed")


def test_files_schema_and_rows(page):
    page.goto(f"{ORDERS}/files")
    everything = page.locator("tbody tr").count()
    page.get_by_label("Condition").fill("id < 15 AND day = '2026-11-01'")
    page.get_by_role("button", name="Find").click()
    assert 0 < page.locator("tbody tr").count() < everything
    page.get_by_label("Condition").fill("id <")
    page.get_by_role("button", name="Find").click()
    expect(page.get_by_role("alert")).to_be_visible()
    page.get_by_role("link", name="Partitions").click()
    bars = page.locator("#partitions tbody tr")
    assert bars.count() == 3
    # The condition of a partition finds its files.
    bars.nth(0).get_by_role("link").click()
    assert page.locator("tbody tr").count() == 7
    page.goto("/tables/sales.customers/schema")
    page.get_by_label("Compare with").fill("0")
    page.get_by_role("button", name="Compare").click()
    expect(page.locator("tr.new")).to_contain_text("note")
    page.get_by_role("link", name="Rows").click()
    expect(page.locator("tbody")).to_contain_text("<script>alert(1)</script>")


def test_validate_repair_and_check_do_what_they_say(page, service):
    lost = service.folder / "lake/sales/orders/_delta_log/00000000000000000002.json"
    content = lost.read_bytes()
    lost.unlink()
    page.goto(ORDERS)
    page.get_by_role("button", name="Validate").click()
    jobs = page.locator("#jobs li")
    expect(jobs.nth(0)).to_contain_text("differs from SQL from version 2", timeout=15_000)
    page.get_by_role("button", name="Repair").click()
    expect(jobs.nth(0)).to_contain_text("1 commit file and 0 checkpoints", timeout=15_000)
    assert lost.read_bytes() == content
    page.get_by_role("button", name="Check").click()
    expect(jobs.nth(0).locator(".badge.good")).to_be_visible(timeout=15_000)
    with service.lake() as lake:
        assert lake.table("sales.orders").mirror.validate().ok


def test_pause_and_resume_and_a_page_that_follows(page, service):
    page.goto("/tables/hr.people")
    page.get_by_role("button", name="Pause").click()
    expect(page.locator("#badges")).to_contain_text("paused")
    with service.lake() as lake:
        table = lake.table("hr.people")
        version = table.append(pa.table({"id": [1]}))
        assert table.mirror.status().lag_versions == 1
        first = page.locator("#versions tbody tr").nth(0)
        # Without a click: the page refreshes itself.
        expect(first).to_contain_text("pending", timeout=15_000)
        page.get_by_role("button", name="Resume").click()
        deadline = time.monotonic() + 15
        while "mirrored" not in first.inner_text() and time.monotonic() < deadline:
            page.reload()
        expect(first).to_contain_text("mirrored")
        assert table.mirror.status().mirrored_version == version


def test_a_job_is_cancelled(page, service):
    """Another process mirrors the table: until it is done, repair waits."""
    with service.lake() as lake:
        lost = service.folder / "lake/sales/customers/_delta_log/00000000000000000001.json"
        content = lost.read_bytes()
        lease = lake.store.acquire_lease(lake.table("sales.customers").table_id, "test", 30)
        lost.unlink()
        try:
            page.goto("/tables/sales.customers")
            page.get_by_role("button", name="Repair").click()
            page.get_by_role("button", name="Cancel").click()
            expect(page.get_by_role("progressbar")).to_be_visible()
        finally:
            lake.store.release_lease(lease)
        expect(page.locator("#jobs li").nth(0)).to_contain_text("cancelled", timeout=15_000)
        # It ended before it wrote anything, and can be begun again.
        assert not lost.exists()
        assert lake.table("sales.customers").mirror.repair().restored == [1]
        assert lost.read_bytes() == content


def test_the_theme_is_chosen_and_kept(page):
    page.emulate_media(color_scheme="light")
    page.goto("/")
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    page.get_by_label("Switch between light and dark").click()
    dark = page.evaluate(ground)
    assert dark != light
    page.goto("/audit")
    assert page.evaluate(ground) == dark
