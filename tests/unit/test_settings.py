"""Settings are declared once: everything else is made from the declarations."""

from __future__ import annotations

from dataclasses import fields
from typing import get_type_hints

import pytest

from deltasql.errors import ConfigError
from deltasql.settings.keys import (
    DEFAULTS,
    READ_URL,
    Settings,
    all_keys,
    parse,
    sections,
    variable_of,
)

KEYS = all_keys()


def test_every_setting_is_a_key():
    assert [key.attribute for key in KEYS] == [item.name for item in fields(Settings)]
    assert all(key.meaning and key.kind.words for key in KEYS)
    assert sections() == ["mirror", "maintenance", "sql", "duckdb", "catalog", "telemetry", "log"]


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.name)
def test_a_default_as_written_is_the_default(key):
    """And of the type that is declared."""
    given = parse({key.name: key.default})
    assert given == DEFAULTS
    kind = get_type_hints(Settings)[key.attribute]
    assert isinstance(getattr(given, key.attribute), kind)
    assert key.variable == variable_of(key.name) == f"DELTASQL_{key.attribute.upper()}"


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.name)
def test_what_is_no_value_is_told_with_its_place(key):
    with pytest.raises(ConfigError, match="X_Y must be") as caught:
        parse({key.name: "no such thing"}, lambda _: "X_Y")
    # A URL without a scheme may have its password anywhere.
    assert ("no such thing" in str(caught.value)) is (key.name != READ_URL)
