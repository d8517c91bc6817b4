"""Text is safe to show whatever is in it, and JSON loses nothing by it."""

import json
import unicodedata
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from deltasql.cli.text import cell, dumps, printable

ANY = st.text(alphabet=st.characters(codec=None, exclude_categories=()))
UNSAFE = {"Cc", "Cs", "Cf", "Zl", "Zp"}


def unsafe(text: str) -> set[str]:
    found = {character for character in text if unicodedata.category(character) in UNSAFE}
    return found - {"\u200c", "\u200d"}


@given(ANY)
def test_printable_has_nothing_to_obey(text):
    assert not unsafe(printable(text))
    assert "\n" not in cell(text)


@given(st.recursive(ANY | st.integers() | st.booleans() | st.none(), st.lists))
def test_json_is_safe_and_exact(value):
    text = dumps(value)
    assert not unsafe(text) - {"\n"}
    assert json.loads(text) == value


def test_plain_text_stays_as_it_is():
    for text in ("sales.orders", "naïve 日本語 🦆", "a\\b", "👩\u200d👩", "[red]x[/red]"):
        assert printable(text) == text


def test_numbers_stay_exact():
    assert dumps({"d": Decimal("1.10"), "n": float("inf"), "b": b"\x00\xff"}) == (
        '{"d": "1.10", "n": "inf", "b": "00ff"}'
    )
