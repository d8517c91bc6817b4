"""A password in a URL is in no message, repr, traceback, pickle or log, however broken the URL."""

from __future__ import annotations

import logging
import traceback

import psycopg
import pytest

import deltasql
from deltasql.errors import DeltaSqlError
from tests.faults.reports import leaks
from tests.parts.process import free_port

SECRET = "s3cret"

# {port} is one that nobody listens on.
URLS = [
    "postgresql://u:{secret}@127.0.0.1:{port}/db",
    "postgres://u:{secret}@127.0.0.1:{port}/db",
    "postgresql://u:{secret}@127.0.0.1:{port}/db?connect_timeout=1&application_name=x",
    "postgresql://127.0.0.1:{port}/db?user=u&password={secret}",
    "postgresql://127.0.0.1:{port}/db?password={secret}&nonsense=1",
    "postgresql://u@127.0.0.1:{port}/db?sslpassword={secret}",
    "postgresql://u@127.0.0.1:{port}/db?PASSWORD={secret}",
    # Not URLs, or not quite.
    "postgresql://u:{secret}@127.0.0.1:port/db",
    "postgresql://u:{secret}@127.0.0.1:99999/db",
    "postgresql://u:{secret}@[127.0.0.1/db",
    "postgresql://[u:{secret}@127.0.0.1/db",
    "postgresql://u:{secret}%zz@127.0.0.1:{port}/db",
    "postgresql://u:%00{secret}@127.0.0.1:{port}/db",
    "postgresql://u:{secret}/x@127.0.0.1:{port}/db",
    "postgresql://u:x/{secret}@127.0.0.1:{port}/db",
    "postgresql://u:{secret}?x@127.0.0.1:{port}/db",
    "postgresql://u:{secret}#x@127.0.0.1:{port}/db",
    "postgresql://u:{secret}@x@127.0.0.1:{port}/db",
    "postgresql://u:x@{secret}@127.0.0.1:{port}/db",
    "postgresql://u:{secret} x@127.0.0.1:{port}/db",
    "postgresql://u:{secret}@127.0.0.1:{port}/db?nonsense",
    "postgresql://u:{secret}@127.0.0.1:{port}/db?nonsense=1",
    "postgresql:/u:{secret}@127.0.0.1:{port}/db",
    "postgresql:u:{secret}@127.0.0.1:{port}/db",
    "postgresql//u:{secret}@127.0.0.1:{port}/db",
    "u:{secret}@127.0.0.1:{port}/db",
    "host=127.0.0.1 port={port} user=u password={secret}",
    "host=127.0.0.1 port={port} user=u password='{secret} x'",
    "host=127.0.0.1 port={port} user=u password='x {secret}'",
    "host=127.0.0.1 port={port} user=u password = {secret}",
    "POSTGRESQL://u:{secret}@127.0.0.1:{port}/db",
    "mysql://u:{secret}@127.0.0.1/db",
    "u:{secret}://127.0.0.1/db",
    "sqlite://u:{secret}@127.0.0.1/db",
    "sqlite://u:{secret}@127.0.0.1",
    "duckdb://u:{secret}@127.0.0.1/db",
    "sqlite:///x.db?password={secret}",
    "sqlite:///missing/x.db?key={secret}",
    "duckdb:///x.db#password={secret}",
]


@pytest.mark.parametrize("form", URLS)
def test_connect_fails_without_telling(form, tmp_path, caplog, capfd):
    caplog.set_level(logging.DEBUG)
    url = form.format(secret=SECRET, port=free_port())
    with pytest.raises(DeltaSqlError) as failure:
        deltasql.connect(url, location=tmp_path.as_uri(), settings={"sql.timeout": "1s"})
    _tells_nothing(failure.value)
    assert SECRET not in caplog.text
    assert SECRET not in "".join(capfd.readouterr())


# Where hosts, ports and tokens begin and end depends on signs like these.
ODD = [
    "a1-b2+c3.d4", "a/b?c#d@e:f", 'a"b" c\'d', "a[b]c%d&e=f", "ab@cd..ef", "%ff%00%zz", "a\ud800b"
]  # fmt: skip
FORMS = [
    "postgresql://u:{0}@127.0.0.1:{1}/db",
    "postgresql://u:{0}@[::1/db",
    "postgresql://u:{0}@127.0.0.1:x/db",
    "postgresql://127.0.0.1:{1}/db?user=u&password={0}",
    "postgresql://127.0.0.1:{1}/db?user=u&password={0}&port=x",
    "postgresql://u:{0}@a..b/db",
    "postgresql://u:{0}@h\ud800/db",
    "duckdb:///x.db?password={0}",
    "sqlite://u:{0}@h/x.db",
]


@pytest.mark.parametrize("password", ODD)
def test_no_sign_in_a_password_tells_the_rest_of_it(password, tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    settings = {"sql.timeout": "1s"}
    for form in FORMS:
        url = form.format(password, free_port())
        for given in (
            {"url": url, "settings": settings},
            {"url": "sqlite:///x.db", "settings": {**settings, "sql.read_url": url}},
        ):
            with pytest.raises(DeltaSqlError) as failure:
                deltasql.connect(location=tmp_path.as_uri(), **given)
            told = "".join(traceback.format_exception(failure.value)) + repr(vars(failure.value))
            assert password not in told + caplog.text, form
            for start in range(len(password) - 4):
                assert password[start : start + 5] not in told + caplog.text, (form, start)


def _tells_nothing(error: BaseException) -> None:
    assert leaks(error, SECRET) == []


class TestWithPassword:
    """A server that asks for one."""

    @pytest.fixture
    def user_url(self, private_postgres):
        private_postgres.create_database("locked")
        with psycopg.connect(private_postgres.url("locked"), autocommit=True) as connection:
            connection.execute(f"CREATE ROLE keeper LOGIN SUPERUSER PASSWORD '{SECRET}'")
        rules = private_postgres.data / "pg_hba.conf"
        rules.write_text("host all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 md5\n")
        private_postgres.restart()
        return private_postgres.url("locked").replace("postgres@", "keeper:{}@")

    def test_nowhere_in_a_lake_that_works(
        self, user_url, private_postgres, tmp_path, caplog, capfd
    ):
        caplog.set_level(logging.DEBUG)
        wrong = user_url.format(f"{SECRET}-wrong")
        with pytest.raises(DeltaSqlError, match="password authentication failed") as failure:
            deltasql.connect(wrong, location=tmp_path.as_uri())
        _tells_nothing(failure.value)

        short = {"sql.timeout": "1s"}
        right = user_url.format(SECRET)
        with deltasql.connect(right, location=tmp_path.as_uri(), settings=short) as lake:
            shown = [repr(lake), str(lake), lake.url, repr(lake.store), str(lake.store.describe())]
            private_postgres.stop("immediate")
            for call in (lake.tables, lambda: lake.store.files(1, 0)):
                with pytest.raises(DeltaSqlError) as failure:
                    call()
                _tells_nothing(failure.value)
            assert not [text for text in shown if SECRET in text]
            private_postgres.start()
        assert SECRET not in caplog.text
        assert SECRET not in "".join(capfd.readouterr())
