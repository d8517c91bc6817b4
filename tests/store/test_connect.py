"""URLs of databases, and the passwords in them."""

import pytest

from deltasql.errors import ConfigError
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


def test_error_about_a_url_keeps_its_password():
    with pytest.raises(ConfigError) as caught:
        open_log("u:secret@h/db?password=secret")
    assert "secret" not in repr(caught.value.args)
