"""URLs of databases, and the passwords in them."""

import pytest

from deltasql.errors import ConfigError
from deltasql.settings.secrets import mask
from deltasql.store.connect import open_log


@pytest.mark.parametrize(
    ("url", "word"),
    [
        ("lake.db", "no scheme"),
        ("", "no scheme"),
        ("mysql://u@h/db", "mysql"),
        ("sqlite:///:memory:", "outlive"),
        ("duckdb:///:memory:", "outlive"),
        ("sqlite://", "does not name a file"),
        ("sqlite:///", "does not name a file"),
        ("sqlite://lake.db", "sqlite:///relative.db"),
        ("sqlite:///lake.db?mode=ro", "options"),
    ],
)
def test_url_is_refused(url: str, word: str):
    with pytest.raises(ConfigError) as caught:
        open_log(url)
    assert word in str(caught.value)
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("url", "masked"),
    [
        ("postgresql://u:secret@h:5432/db", "postgresql://u:***@h:5432/db"),
        ("postgresql://u:se@c/r:et@h/db?x=1", "postgresql://u:***@h/db?x=1"),
        ("postgresql://:secret@h/db", "postgresql://:***@h/db"),
        ("postgresql://u@h/db", "postgresql://u@h/db"),
        ("postgresql://h/db?password=secret&user=u", "postgresql://h/db?password=***&user=u"),
        ("postgresql://h/db?sslpassword=secret", "postgresql://h/db?sslpassword=***"),
        ("sqlite:////data/lake.db", "sqlite:////data/lake.db"),
    ],
)
def test_passwords_are_masked(url: str, masked: str):
    assert mask(url) == masked


def test_error_about_a_url_keeps_its_password():
    with pytest.raises(ConfigError) as caught:
        open_log("u:secret@h/db?password=secret")
    assert "secret" not in repr(caught.value.args)
