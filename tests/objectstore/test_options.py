"""Options are checked by name, go to the store they are for, and stay secret."""

from datetime import timedelta

import pytest

from deltasql.errors import ConfigError
from deltasql.objectstore import open_store
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


def test_absolute_paths_find_their_credentials():
    given = {"s3.region": "us-east-1", "s3.access_key_id": "a", "s3.secret_access_key": "b"}
    sources = Sources(lambda: ["s3://there/"])
    store, key = open_store("s3://here/x", given, sources).resolve("s3://there/k/x")
    assert (store.location, key) == ("s3://there", "k/x")
    assert store._options["s3.access_key_id"] == "a"
    # A bare name is for one kind of store, and absolute paths stay in it.
    bare = open_store("s3://here/x", given | {"region": "us-east-1"}, sources)
    assert bare.resolve("s3a://there/x")[0]._options["region"] == "us-east-1"
