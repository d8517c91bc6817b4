"""A real browser that looks at pages: what sticks out, what can't be read, what fails."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Browser, Page

# Nothing sticks out or is cut, every control has a name, and text stands out from its ground.
SOUND: dict[str, Any] = {"overflow": 0, "unnamed": [], "cut": [], "crushed": [], "faint": []}


@contextmanager
def watched_page(browser: Browser, address: str, **options: Any) -> Iterator[Page]:
    """A page that fails its test on any error in the browser."""
    context = browser.new_context(
        base_url=address, viewport={"width": 1280, "height": 900}, **options
    )
    context.set_default_timeout(10_000)
    found = context.new_page()
    problems: list[str] = []
    found.on("pageerror", lambda error: problems.append(str(error)))
    found.on("dialog", lambda dialog: problems.append(f"dialog {dialog.message}"))
    found.on(
        "console",
        lambda told: (
            problems.append(told.text)
            if told.type == "error" and "status of 4" not in told.text
            else None
        ),
    )
    yield found
    context.close()
    assert problems == []


# Contrast as WCAG counts it: 4.5 for text.
LOOK = """() => {
  const lum = (c) => {
    const part = (v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    const [r, g, b] = c.map((v) => part(v / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const parse = (text) => (text.match(/[\\d.]+/g) || [0, 0, 0, 0]).map(Number);
  const ground = (node) => {
    for (; node; node = node.parentElement) {
      const c = parse(getComputedStyle(node).backgroundColor);
      if (c.length < 4 || c[3] === 1) return c.slice(0, 3);
    }
    return [255, 255, 255];
  };
  const faint = new Set();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || node.closest("title, .skip")) continue;
    const [a, b] = [lum(parse(getComputedStyle(node).color).slice(0, 3)), lum(ground(node))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) faint.add(`${node.className || node.tagName} ${ratio.toFixed(2)}`);
  }
  const controls = "a, button, input:not([type=hidden]), progress, svg[role=img]";
  const unnamed = [...document.querySelectorAll(controls)]
    .filter((n) => !(n.textContent.trim() || n.ariaLabel || n.closest("label")))
    .map((n) => n.outerHTML.slice(0, 80));
  // Rows may have any number of columns; everything else fits, tabs included.
  const cut = [...document.querySelectorAll(".tabs, .list, .scroll:not([aria-label=Rows])")]
    .filter((n) => n.scrollWidth > n.clientWidth + 1)
    .map((n) => `${n.className} ${n.scrollWidth} > ${n.clientWidth}`);
  const crushed = [...document.querySelectorAll("td .name")]
    .filter((n) => n.textContent.length > 8 && n.getBoundingClientRect().width < 60)
    .map((n) => n.textContent);
  const root = document.documentElement;
  const overflow = root.scrollWidth - root.clientWidth;
  return { overflow, unnamed, cut, crushed, faint: [...faint] };
}"""
