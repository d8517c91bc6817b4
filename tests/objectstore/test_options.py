"""Options are checked by name, go to the store they are for, and stay secret."""

import re
from datetime import timedelta

import pytest

from deltasql.errors import ConfigError, StoreError
from deltasql.objectstore import ObjectStore, open_store
from deltasql.objectstore.sources import Sources
from deltasql.settings.object_store import (
    is_option,
    is_secret,
    option_names,
    options_in,
    parse_options,
)
from deltasql.settings.sources import resolve


def test_each_kind_takes_its_own():
    given = {
        "s3.region": "eu-west-1",
        "s3.allow_http": True,
        "azure.account_name": "account",
        "gcs.service_account": "/key.json",
        "s3.max_retries": "3",
        "s3.retry_timeout": "5s",
    }
    s3 = parse_options(given, "s3")
    assert s3.config == {"region": "eu-west-1", "copy_if_not_exists": "multipart"}
    assert s3.client == {"allow_http": "true"}
    assert s3.retry == {"max_retries": 3, "retry_timeout": timedelta(seconds=5)}
    assert parse_options(given, "azure").config == {"account_name": "account"}
    assert parse_options(given, "gcs").config == {"service_account": "/key.json"}
    assert parse_options(given, "local").config == {}


@pytest.mark.parametrize(
    "name",
    ["s3.sse", "s3.aws_server_side_encryption", "aws_server_side_encryption", "AWS_SSE"],
)
def test_names_of_encryption(name):
    assert parse_options({name: "aws:kms"}, "s3").config["server_side_encryption"] == "aws:kms"


def test_names_of_azure():
    given = {"azure_storage_account_key": "a", "azure.azure_client_id": "b"}
    assert parse_options(given, "azure").config == {"account_key": "a", "client_id": "b"}


@pytest.mark.parametrize(
    ("name", "kind", "remedy"),
    [
        ("s3.regoin", "s3", "did you mean s3.region?"),
        ("s3.regoin", "gcs", "did you mean s3.region?"),
        ("regoin", "s3", "did you mean s3.region?"),
        ("azure.acount_key", "azure", "did you mean azure.account_key?"),
        ("gcs.retry_timeuot", "local", "did you mean gcs.retry_timeout?"),
        ("s3.zzzzzz", "s3", "docs/storage.md"),
        ("region", "local", "options begin with"),
        ("ftp.region", "local", "options begin with"),
        ("s3.", "s3", "docs/storage.md"),
    ],
)
def test_unknown_options_name_the_nearest(name, kind, remedy):
    with pytest.raises(ConfigError) as caught:
        parse_options({name: "S3CRET"}, kind)
    assert repr(name) in str(caught.value)
    assert remedy in str(caught.value)
    assert "S3CRET" not in str(caught.value)


@pytest.mark.parametrize("location", ["/tmp/x", "file:///tmp/x", "s3://b", "gs://b", "az://c"])
def test_unknown_options_are_refused_everywhere(location):
    with pytest.raises(ConfigError, match=r"did you mean s3\.region"):
        open_store(location, {"s3.regoin": "x"})


def test_ill_typed_options():
    for given in ({"s3.max_retries": "many"}, {"s3.retry_timeout": "soon"}):
        with pytest.raises(ConfigError):
            parse_options(given, "s3")


def test_the_environment_names_options():
    environment = {
        "DELTASQL_S3_REGION": "eu-west-1",
        "DELTASQL_S3_SSE": "AES256",
        "DELTASQL_AZURE_ACCOUNT_KEY": "k",
        "DELTASQL_MIRROR_MODE": "sync",
        "AWS_REGION": "left to obstore",
    }
    found = {"s3.region": "eu-west-1", "s3.sse": "AES256", "azure.account_key": "k"}
    assert options_in(environment) == resolve(environment=environment).storage == found
    assert all(is_option(key) for key in found)
    assert not is_option("mirror.mode")
    assert not is_option("s3.regoin")


def test_every_option_has_a_name_and_secrets_are_known():
    assert all(is_option(name) for name in option_names())
    secrets = {name for name in option_names() if is_secret(name)}
    assert {"s3.secret_access_key", "azure.account_key", "gcs.bearer_token"} <= secrets
    assert not {"s3.region", "azure.account_name", "gcs.base_url"} & secrets
    assert not is_secret("sql.pool_size")


def test_secrets_show_nowhere():
    given = {
        "s3.access_key_id": "AKIA",
        "s3.secret_access_key": "S3CRET",
        "s3.region": "here",
        "s3.session_token": "T0KEN",
    }
    parsed = parse_options(given, "s3")
    assert "S3CRET" not in repr(parsed)
    assert parsed.redact("S3CRET at here by T0KEN") == "… at here by …"
    store = open_store("s3://bucket/x", given)
    assert "S3CRET" not in repr(store) + store.location


def test_a_broken_secret_is_not_shown():
    with pytest.raises(ConfigError) as caught:
        open_store("gs://bucket", {"gcs.service_account_key": '{"private_key": "S3CRET"'})
    assert "S3CRET" not in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("s3.access_key_id", "S3CRET\n"),
        ("s3.session_token", "S3CRET\r\n"),
        ("s3.region", "S3CRET\0"),
        ("s3.endpoint", "http://127.0.0.1:1/S3CRET x"),
        ("s3.endpoint", "http://é.S3CRET"),
        ("azure.token", "S3CRET\n"),
        ("azure.account_name", "S3CRET\n"),
        ("gcs.bearer_token", "S3CRET\n"),
        ("gcs.base_url", " S3CRET"),
    ],
)
def test_what_no_header_can_hold_is_refused(key, value):
    """A key read from a file ends in a line break; obstore panics where it would send it."""
    location = {"s3": "s3://b", "azure": "az://b", "gcs": "gs://b"}[key.partition(".")[0]]
    with pytest.raises(ConfigError, match=re.escape(key)) as caught:
        open_store(location, {key: value})
    assert "S3CRET" not in str(caught.value)


def test_certificates_have_lines():
    text = "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n"
    parsed = parse_options({"s3.root_certificate": text}, "s3")
    assert parsed.client["root_certificate"] == text


def test_a_panic_over_a_variable_of_the_stores_own_is_an_error(monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIA\n")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "S3CRET")
    given = {"s3.endpoint": "http://127.0.0.1:1", "s3.allow_http": "true", "s3.region": "x"}
    store = open_store("s3://b", {**given, "s3.max_retries": 0})
    for call in (
        lambda: store.put("x", b""),
        lambda: store.read("x"),
        lambda: list(store.list()),
        lambda: store.delete(["x"]),
        lambda: store.put_if_absent("x", b""),
        lambda: _put_much(store),
    ):
        with pytest.raises(StoreError, match=r"can't \w+ the object") as caught:
            call()
        assert "S3CRET" not in str(caught.value)


def _put_much(store: ObjectStore) -> None:
    with store.open_output("x") as output:
        for _ in range(8):
            output.write(bytes(4 << 20))


@pytest.mark.parametrize(
    ("location", "given"),
    [
        ("s3://b", {"s3.endpoint": "http://u:S3CRET@127.0.0.1:1", "s3.allow_http": "true"}),
        ("s3://b", {"s3.endpoint": "http://u:S3/CRET@127.0.0.1:1", "s3.allow_http": "true"}),
        (
            "abfss://c@a.dfs.core.windows.net",
            {
                "azure.authority_host": "http://u:S3CRET@127.0.0.1:1",
                "azure.client_id": "x",
                "azure.client_secret": "y",
                "azure.tenant_id": "t",
            },
        ),
    ],
)
def test_a_password_in_an_endpoint_is_in_no_error(location, given, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIA")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    kind = next(iter(given)).partition(".")[0]
    store = open_store(location, {**given, f"{kind}.max_retries": 0, f"{kind}.timeout": "2s"})
    with pytest.raises(StoreError) as caught:
        store.put("x", b"")
    assert caught.value.cause
    assert "CRET" not in str(caught.value)


def test_absolute_paths_find_their_credentials():
    given = {"s3.region": "us-east-1", "s3.access_key_id": "a", "s3.secret_access_key": "b"}
    sources = Sources(lambda: ["s3://there/"])
    store, key = open_store("s3://here/x", given, sources).resolve("s3://there/k/x")
    assert (store.location, key) == ("s3://there", "k/x")
    assert store._options["s3.access_key_id"] == "a"
    # A bare name is for one kind of store, and absolute paths stay in it.
    bare = open_store("s3://here/x", given | {"region": "us-east-1"}, sources)
    assert bare.resolve("s3a://there/x")[0]._options["region"] == "us-east-1"
