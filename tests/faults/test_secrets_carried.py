"""What errors carry along, of drivers, settings and programs: no report shows a secret."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

import deltasql
from deltasql.errors import DeltaSqlError
from deltasql.objectstore import open_store
from deltasql.secrecy import discreet, forget_variables
from tests.faults.reports import leaks
from tests.parts.process import free_port

SECRET = "s3cr3t"
KEYS = {
    "s3.access_key_id": "AKIAEXAMPLE",
    "s3.secret_access_key": SECRET,
    "s3.session_token": SECRET,
    "azure.account_key": SECRET,
    "sql.timeout": "1s",
}


def failed(call: Callable[[], object]) -> DeltaSqlError:
    with pytest.raises(DeltaSqlError) as caught:
        call()
    return caught.value


@pytest.fixture
def url(postgres_url: str) -> str:
    """The server trusts everybody; the password is there to be looked for."""
    return postgres_url.replace("@", f":{SECRET}@", 1)


@pytest.fixture
def lake(url: str, tmp_path: Path) -> Iterator[deltasql.Lake]:
    settings = {**KEYS, "sql.timeout": "5s", "sql.pool_size": 2}
    with deltasql.connect(url, location=tmp_path.as_uri(), settings=settings) as lake:
        lake.create_table("t", "id BIGINT").append([{"id": 1}])
        yield lake


@pytest.mark.postgres
@pytest.mark.parametrize(
    "change",
    [
        lambda url: url.replace("127.0.0.1", "host.invalid"),
        lambda url: url.replace("//postgres:", "//nobody:"),
        lambda url: url.rsplit("/", 1)[0] + "/no_such_database",
        lambda url: url + "?sslmode=require",
        lambda url: url + "?sslmode=verify-full&sslrootcert=/none",
        lambda url: url + "?target_session_attrs=standby",
        lambda url: url + "?nonsense=1",
        lambda url: f"{url.split('@')[0]}@127.0.0.1:{free_port()},127.0.0.1:{free_port()}/db",
    ],
)
@pytest.mark.parametrize("is_replica", [False, True])
def test_a_connection_that_fails(url, tmp_path, caplog, change, is_replica):
    caplog.set_level(logging.DEBUG)
    wrong = change(url)
    given = {**KEYS, "sql.read_url": wrong} if is_replica else KEYS
    where = url if is_replica else wrong

    def connect() -> None:
        deltasql.connect(where, location=tmp_path.as_uri(), settings=given).close()

    if is_replica and "nonsense" not in wrong:
        # Reads go to the primary, and the log says why.
        connect()
    else:
        assert leaks(failed(connect), SECRET) == []
    _nothing_logged(caplog)


def _nothing_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Handlers may look at what a line was made of."""
    assert SECRET not in caplog.text
    for record in caplog.records:
        given = record.args if isinstance(record.args, tuple) else ()
        for item in given:
            if isinstance(item, BaseException):
                assert leaks(item, SECRET) == [], record.getMessage()


@pytest.mark.postgres
def test_a_statement_that_is_cut(lake, postgres_url, caplog):
    """Of each kind: one in a transaction, one alone, and files in Arrow."""
    caplog.set_level(logging.DEBUG)
    long = "SELECT pg_sleep(30)"

    def in_a_transaction() -> None:
        with lake.store.locked([]) as log:
            log.execute(long)

    def streamed() -> None:
        for _ in lake.store._connections.arrow(long):
            pass

    for call in (in_a_transaction, streamed, lambda: lake.store._connections.rows(long, {})):
        cutting = threading.Thread(target=_cut, args=(postgres_url, lake))
        cutting.start()
        error = failed(call)
        cutting.join()
        assert leaks(error, SECRET) == [], call
    _nothing_logged(caplog)


def _cut(postgres_url: str, lake: deltasql.Lake) -> None:
    """End the backends of a lake that sleep, as often as they are asked again."""
    name = postgres_url.rsplit("/", 1)[1]
    sleeping = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = %s AND query LIKE '%%pg_sleep(30)%%' AND pid <> pg_backend_pid()"
    )
    deadline = time.monotonic() + 20
    cut, quiet_since = 0, 0.0
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        while time.monotonic() < deadline and not (cut and time.monotonic() > quiet_since + 1):
            if connection.execute(sleeping, [name]).fetchall():
                cut, quiet_since = cut + 1, time.monotonic()
            time.sleep(0.02)


@pytest.mark.postgres
def test_a_pool_that_is_used_up(lake, postgres_url):
    with suppress(DeltaSqlError), lake.store.locked([]), lake.store.locked([]):
        error = failed(lambda: lake.store.table("t"))
        assert leaks(error, SECRET) == []


@pytest.mark.postgres
def test_a_server_that_is_gone(private_postgres, tmp_path, caplog):
    """Connections that the pool had, new ones, those of the listener, and Arrow's."""
    caplog.set_level(logging.DEBUG)
    private_postgres.create_database("gone")
    url = private_postgres.url("gone").replace("@", f":{SECRET}@", 1)
    settings = {**KEYS, "sql.timeout": "2s"}
    with deltasql.connect(url, location=tmp_path.as_uri(), settings=settings) as lake:
        table = lake.create_table("t", "id BIGINT")
        table.append([{"id": 1}])
        files = lake.store.files(1, 1)
        files.read_all()
        private_postgres.stop("immediate")
        for call in (
            lake.tables,
            lambda: table.append([{"id": 2}]),
            lambda: lake.store.files(1, 1).read_all(),
            lambda: lake.transaction().__enter__().table("t"),
            table.optimize,
        ):
            assert leaks(failed(call), SECRET) == []
        private_postgres.start()
    _nothing_logged(caplog)


@pytest.mark.parametrize(
    "url", ["sqlite:////no/such/folder/x.db", "duckdb:////no/such/folder/x.db", "sqlite:///x.db"]
)
def test_an_embedded_database(url, tmp_path, monkeypatch):
    """The keys of the object store are settings, whatever the database is."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.db").write_bytes(b"no database" * 500)
    error = failed(lambda: deltasql.connect(url, location=str(tmp_path), settings=KEYS))
    assert leaks(error, SECRET) == []


@pytest.mark.parametrize(
    ("location", "options"),
    [
        ("s3://bucket/lake", {"s3.endpoint": "http://127.0.0.1:{port}"}),
        ("s3://bucket/lake", {"s3.endpoint": "http://u:{secret}@127.0.0.1:{port}"}),
        ("s3://bucket/lake", {"s3.endpoint": "no address, {secret}\n"}),
        ("s3://bucket/lake", {"s3.nonsense": "{secret}"}),
        ("s3://u:{secret}@bucket/lake", {"s3.endpoint": "http://127.0.0.1:{port}"}),
        ("az://c/lake", {"azure.account_name": "a", "azure.account_key": "{secret}"}),
        ("az://c/lake", {"azure.account_name": "a", "azure.sas_key": "?sig={secret}"}),
        ("gs://b/lake", {"gcs.service_account_key": '{{"private_key": "{secret}"}}'}),
        ("ftp://u:{secret}@host/lake", {}),
        ("file://u:{secret}@host/lake", {}),
    ],
)
def test_an_object_store(location, options, tmp_path):
    given = {
        **{key: value for key, value in KEYS.items() if key.startswith("s3.")},
        **{key: value.format(secret=SECRET, port=free_port()) for key, value in options.items()},
        "s3.region": "us-east-1",
        "s3.allow_http": "true",
        "s3.retry_timeout": "100ms",
        "azure.retry_timeout": "100ms",
        "gcs.retry_timeout": "100ms",
    }
    place = location.format(secret=SECRET)

    def used() -> None:
        objects = open_store(place, given)
        objects.put_if_absent("x", b"1")
        objects.read("x")

    if not place.startswith(("az:", "gs:")):
        assert leaks(failed(used), SECRET) == []
    else:
        # Without asking the network: only what opening says.
        with suppress(DeltaSqlError):
            open_store(place, given)
    database = f"sqlite:///{tmp_path}/x.db"

    def connected() -> None:
        with deltasql.connect(database, location=place, settings=given) as lake:
            lake.create_table("t", "id BIGINT").append([{"id": 1}])

    if not place.startswith(("az:", "gs:")):
        assert leaks(failed(connected), SECRET) == []


@pytest.mark.parametrize(
    "text",
    [
        "url = 'postgresql://u:{0}@h/db'\nnonsense = 1",
        "url = 'postgresql://u:{0}@h/db'\nno toml",
        "url = 'postgresql://u:{0}@h/db'\nurl = 'x {0}'",
        "[s3]\nsecret_access_key = '{0}'\nnonsense = 1",
        "[s3]\nsecret_access_key = ['{0}']",
        "[s3]\nsecret_access_key = '{0}'\n[sql]\ntimeout = 'x'",
        "url = ['postgresql://u:{0}@h/db']",
        "url_command = \"sh -c 'echo postgresql://u:{0}@h/db; exit 3'\"",
        "url_command = 'echo postgresql://u:{0}@h/db and more \\n x'",
        "url_command = 'printf \"postgresql://u:{0}@h/db%b\" \\\\0377'",
        "profile = 'x'\n[profiles.y]\nurl = 'postgresql://u:{0}@h/db'",
    ],
)
def test_settings_that_are_wrong(text, tmp_path, monkeypatch):
    file = tmp_path / "deltasql.toml"
    file.write_text(text.format(SECRET))
    monkeypatch.setenv("DELTASQL_CONFIG", str(file))
    assert leaks(failed(lambda: deltasql.connect(location=str(tmp_path))), SECRET) == []


@pytest.mark.parametrize("key", ["DELTASQL_URL", "DELTASQL_S3_SECRET_ACCESS_KEY"])
def test_variables_beside_a_wrong_one(key, tmp_path, monkeypatch):
    monkeypatch.setenv(key, f"postgresql://u:{SECRET}@h/db")
    monkeypatch.setenv("DELTASQL_SQL_TIMEOUT", "x")
    assert leaks(failed(lambda: deltasql.connect(location=str(tmp_path))), SECRET) == []


def test_what_holds_secrets_prints_none(tmp_path):
    """A lake and its parts are variables in every traceback."""
    settings = {**KEYS, "sql.timeout": "5s"}
    with deltasql.connect(
        f"sqlite:///{tmp_path}/x.db", location=str(tmp_path / "l"), settings=settings
    ) as lake:
        parts = (lake, lake.settings, lake.storage, lake.opening, lake.reader_options, vars(lake))
        assert [part for part in parts if SECRET in repr(part)] == []
        assert lake.storage["s3.secret_access_key"] == SECRET
        assert lake.reader_options["secret_access_key"] == SECRET


def test_variables_of_others_are_left():
    """What the caller is handling, and the calls around, belong to the caller."""

    @discreet
    def broken(given: str) -> None:
        raise ValueError(given[:0] + "broken")

    def own() -> None:
        kept = "kept"
        raise KeyError(kept)

    try:
        own()
    except KeyError:
        with pytest.raises(ValueError, match="broken") as caught:
            broken(SECRET)
    assert leaks(caught.value, SECRET) == []
    context = caught.value.__context__
    assert context.__traceback__.tb_next.tb_frame.f_locals == {"kept": "kept"}
    forget_variables(caught.value)
    assert context.__traceback__.tb_next.tb_frame.f_locals == {}
