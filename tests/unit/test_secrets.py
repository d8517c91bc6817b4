"""What is shown and written of URLs and options: only what is known to be harmless."""

import pytest

from deltasql.settings.object_store import is_secret, option_names
from deltasql.settings.secrets import mask, mask_address, without_secrets
from deltasql.settings.sources import Value

SECRETS = (
    "password",
    "sslpassword",
    "passfile",
    "oauth_client_secret",
    "scram_client_key",
    "scram_server_key",
    "options",
    "pass%77ord",
    "PASSWORD",
    "what_libpq_learns_next_year",
)


@pytest.mark.parametrize(
    ("url", "masked"),
    [
        ("postgresql://u:secret@h:5432/db", "postgresql://u:***@h:5432/db"),
        ("postgresql://u:se@c/r:et@h/db?port=1", "postgresql://u:***@h/db?port=1"),
        ("postgresql://:secret@h/db", "postgresql://:***@h/db"),
        ("postgresql://u@h/db", "postgresql://u@h/db"),
        ("postgresql://h/db?password=secret&user=u", "postgresql://h/db?password=***&user=u"),
        ("postgresql://h/db?sslmode=require#secret", "postgresql://h/db?sslmode=require#***"),
        ("postgresql://a,b/db?target_session_attrs=any", None),
        ("sqlite:////data/lake.db", None),
        ("sqlite:////data/me@home/lake.db", None),
        ("postgresql:/u:secret@h/db", "***@h/db"),
        ("u:secret@h/db?sslmode=require", "***@h/db?sslmode=require"),
    ],
)
def test_passwords_are_masked(url, masked):
    assert mask(url) == (masked or url)


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_in_the_query_is_neither_shown_nor_written(name):
    url = f"postgresql://u:s3cr3t@h/db?sslmode=require&{name}=s3cr3t&connect_timeout=5"
    assert "s3cr3t" not in mask(url)
    assert without_secrets(url) == "postgresql://u@h/db?sslmode=require&connect_timeout=5"


@pytest.mark.parametrize(
    ("address", "masked"),
    [
        ("s3://bucket/lake", None),
        ("/data/what?/lake#1", None),
        ("abfss://container@account.dfs.core.windows.net/lake", None),
        ("https://me:s3cr3t@minio:9000", "https://***@minio:9000"),
        ("https://s3cr3t@minio:9000/", "https://***@minio:9000/"),
        (
            "abfss://c@a.dfs.core.windows.net/x?sv=1&sig=s3cr3t",
            "abfss://c@a.dfs.core.windows.net/x?***",
        ),
        ("az://c/x#s3cr3t", "az://c/x"),
    ],
)
def test_addresses_are_shown_without_user_and_query(address, masked):
    assert mask_address(address) == (masked or address)
    assert Value("location", address, "test").shown == (masked or address)
    assert Value("s3.endpoint", address, "test").shown == (masked or address)


def test_an_option_is_secret_unless_it_is_known_to_be_harmless():
    shown = {name for name in option_names() if not is_secret(name)}
    for word in (
        "key",
        "secret",
        "token",
        "password",
        "root_certificate",
        "proxy_url",
        "credentials",
    ):
        harmless = {"s3.sse_bucket_key_enabled", "gcs.sse_bucket_key_enabled"}
        assert not {name for name in shown - harmless if word in name}, word
    assert {"s3.region", "s3.endpoint", "azure.account_name", "gcs.base_url"} <= shown
