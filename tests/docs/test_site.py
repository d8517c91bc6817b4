"""The site as a reader has it: built without a warning, and every link leads.

In a real browser: no error in its console, no request to another host, and axe finds nothing.
"""

from __future__ import annotations

import http.server
import os
import re
import subprocess
import sys
import threading
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import sync_playwright

from tests.docs import photographs, pictures
from tests.parts import chromium
from tests.parts.process import PartMissingError

ROOT = Path(__file__).parents[2]
# In the dark; by day every page is examined.
_PHOTOGRAPHS = {f"images/{name}.png" for name in photographs.PAGES}
IN_THE_DARK = ["index.html", "python.html", "benchmarks.html", "how-do-i.html", "api/table.html"]

_LOADED = re.compile(r"<(?:script|img|link|iframe)\b[^>]*\b(?:src|href)=\"?(https?:[^\s\">]+)")

# Not the copy buttons, which the theme's script puts into landmarks of their own, all alike, nor
# the theme's nested navigation, whose landmarks repeat their labels, nor its search on 404.html.
_RUN_AXE = """axe.run(
    {exclude: [['.md-code__nav'], ['.md-search']]},
    {resultTypes: ['violations'], rules: {'landmark-unique': {enabled: false}}},
)"""


class _Site(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Tests are quiet."""


class _Names(HTMLParser):
    """What a page can be linked at, and what it asks for."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.asked: list[str] = []

    def handle_starttag(self, _tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.ids.update(value for key in ("id", "name") if (value := found.get(key)))
        for key in ("href", "src"):
            if value := found.get(key):
                self.asked.append(value)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built site; a warning fails every test."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [Path(sys.executable).with_name("mkdocs"), "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def address(site):
    handler = partial(_Site, directory=str(site))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def browser():
    try:
        program = chromium.find()
    except PartMissingError as problem:
        pytest.skip(str(problem))
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture(scope="module")
def pages(site):
    found = {}
    for path in site.rglob("*.html"):
        names = _Names()
        names.feed(path.read_text())
        found[path.relative_to(site).as_posix()] = names
    return found


def test_every_page_of_the_documentation_is_there(site, pages):
    written = {
        path.relative_to(ROOT / "docs").with_suffix(".html").as_posix().replace("README", "index")
        for path in (ROOT / "docs").rglob("*.md")
    }
    assert written <= set(pages)


def test_every_link_and_anchor_leads(site, pages):
    broken = []
    for page, names in pages.items():
        if page == "404.html":
            continue
        for link in names.asked:
            parts = urlsplit(urljoin(f"http://site/{page}", link))
            if parts.netloc != "site":
                continue
            path = unquote(parts.path).lstrip("/") or "index.html"
            path = f"{path}index.html" if path.endswith("/") else path
            is_there = (site / path).is_file()
            if is_there and parts.fragment and path in pages:
                is_there = unquote(parts.fragment) in pages[path].ids
            if not is_there:
                broken.append(f"{page}: {link}")
    assert broken == []


def test_what_is_printed_with_tabs_stands_in_columns(site):
    shown = re.sub(r"<[^>]+>", "", (site / "quickstart.html").read_text())
    assert re.search(r"^table {9}version  location +read_only  kind$", shown, re.MULTILINE)
    assert re.search(r"^3   2026-11-02  40.0$", shown, re.MULTILINE)


def test_nothing_is_fetched_from_elsewhere(site, pages):
    for page in pages:
        assert not _LOADED.findall((site / page).read_text()), page
    styles = "".join(path.read_text() for path in site.rglob("*.css"))
    assert not re.search(r"url\(['\"]?https?:", styles)
    for picture in (site / "images").rglob("*.svg"):
        drawn = picture.read_text().replace("http://www.w3.org/", "")
        assert "http" not in drawn, picture


@pytest.mark.timeout(300)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_browser_has_no_complaint(browser, address, pages, scheme):
    context = browser.new_context(color_scheme=scheme, viewport={"width": 1280, "height": 900})
    context.set_default_timeout(30_000)
    page = context.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda told: problems.append(told.text) if told.type == "error" else None)
    ours = (address, "data:", "blob:")
    page.on(
        "request", lambda asked: asked.url.startswith(ours) or problems.append(f"asked {asked.url}")
    )
    for name in sorted(pages) if scheme == "light" else IN_THE_DARK:
        page.goto(address + name)
        assert page.locator("h1").count() == 1, name
        page.evaluate(AXE_SCRIPT)
        found = page.evaluate(_RUN_AXE)
        problems += [
            f"{name}: {item['id']} {node['target']} {node['failureSummary'][:200]}"
            for item in found["violations"]
            for node in item["nodes"]
        ]
    assert not problems, "\n".join(problems)
    context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_photographs_of_the_dashboard_have_the_scheme_of_the_page(
    site, browser, address, pages, scheme
):
    context = browser.new_context(color_scheme=scheme, viewport={"width": 1280, "height": 900})
    page = context.new_page()
    seen = 0
    for name in sorted(name for name, found in pages.items() if _PHOTOGRAPHS & set(found.asked)):
        page.goto(address + name)
        for drawn in page.eval_on_selector_all(
            "img[src^='images/'][src$='.png']",
            "all => all.map(item => getComputedStyle(item).content + ' ' + item.src)",
        ):
            seen += 1
            place = re.search(r"images/([a-z-]+\.png)", drawn)
            assert place, drawn
            assert ("-dark" in place[1]) == (scheme == "dark"), drawn
            assert (site / "images" / place[1]).is_file()
    assert seen == 4
    context.close()


def test_search_finds_and_narrow_windows_fit(browser, address, pages):
    context = browser.new_context(viewport={"width": 390, "height": 800})
    context.set_default_timeout(30_000)
    page = context.new_page()
    wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    for name in sorted(pages):
        page.goto(address + name)
        assert page.evaluate(wide) == 0, name
    page.set_viewport_size({"width": 1280, "height": 900})
    page.goto(address + "index.html")
    page.get_by_role("textbox", name="Search").fill("vacuum")
    page.locator(".md-search-result__link").first.wait_for()
    context.close()


def test_what_is_copied_from_a_transcript_is_what_is_typed(browser, address):
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.goto(address + "how-do-i.html")
    block = page.locator("div.language-console").first
    block.hover()
    block.locator("button").click()
    page.locator(".md-dialog--active").wait_for()
    copied = page.evaluate("navigator.clipboard.readText()").split("\n")
    assert [line for line in copied if line] == [
        "pip install 'deltasql[duckdb]' pandas polars matplotlib deltalake",
        "deltasql init sqlite:///lake.db --location ./lake",
    ]
    context.close()


def test_the_benchmarks_are_those_that_are_quoted():
    """No figure is made up: README.md and the front page quote what was measured."""
    text = (ROOT / "README.md").read_text()
    _, heading, below = text.partition(
        "| workload | deltasql | alternative | factor |\n|---|---|---|---|\n"
    )
    rows = below.partition("\n\n")[0].splitlines()
    assert heading
    assert rows
    measured = {
        f"| {item['workload']} | {item['ours']} {item['unit']} "
        f"| {item['against']} {item['peer']} {item['unit']} | {item['ratio']} |"
        for item in pictures.figures()
    }
    assert set(rows) <= measured
    front = (ROOT / "docs/theme/home.html").read_text()
    ratios = {figure["ratio"] for figure in pictures.figures()}
    assert set(re.findall(r"<dd>([^<]+)</dd>", front)) <= ratios
    drawn = (pictures.IMAGES / "benchmarks.svg").read_text()
    assert drawn == pictures.benchmarks_svg(), "run: make pictures"
    assert pictures.PAGE.read_text() == pictures.benchmarks_page(), "run: make pictures"
