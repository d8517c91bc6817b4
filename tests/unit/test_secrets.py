"""What is shown and written of URLs and options: only what is known to be harmless."""

import re
import string
from urllib.parse import quote

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from deltasql.errors import ConfigError
from deltasql.settings.object_store import is_secret, option_names
from deltasql.settings.secrets import mask, mask_address, scrubbed, without_secrets
from deltasql.settings.sources import Value, resolve

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
        ("postgresql://u@h/db#secret", "postgresql://u@h/db#***"),
        # Where the secret ends, nobody can tell.
        ("postgresql://h:5432/db?user=u&password=se@cret#x", "postgresql://***"),
        ("postgresql://u:se?cret@h/db", "postgresql://***"),
        ("postgresql://u:se#cret@h/db", "postgresql://***"),
        ("host=h password=secret", "***"),
        ("password=secret host=me@h", "***"),
        # It is clear here: nothing before the query has a password.
        ("postgresql://h:5432/db?password=se@cret", "postgresql://h:5432/db?password=***"),
        ("postgresql://a:1,b/db?user=me@azure", "postgresql://a:1,b/db?user=me@azure"),
        ("postgresql://h/db?password=se&cret", "postgresql://h/db?password=***&***"),
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
    ("url", "stored"),
    [
        ("postgresql://h:5432/db?user=u&password=se@cret", "postgresql://h:5432/db?user=u"),
        ("postgresql://u@h/db#secret", "postgresql://u@h/db"),
        ("postgresql://u:se?cret@h/db", ""),
        ("host=h password=secret", ""),
    ],
)
def test_what_may_be_secret_is_not_stored(url, stored):
    assert without_secrets(url) == stored


SIGNS = string.ascii_letters + string.digits + string.punctuation + ' "\u202e'
passwords = st.text(SIGNS, min_size=8, max_size=24)


@given(passwords, st.booleans())
def test_no_password_is_shown_however_it_is_spelt(password, is_quoted):
    spelt = quote(password, safe="") if is_quoted else password
    for form in (
        "postgresql://u:{}@h:1/db",
        "postgresql://h:5432/db?user=u&password={}",
        "postgresql://h:5432/db?password={}&port=1",
        "postgresql://u:{}@h/db?password={}",
        "postgresql://u@h/db#{}",
        "postgresql:/u:{}@h/db",
        "u:{}@h/db",
        "host=h password='{}'",
    ):
        url = form.format(spelt, spelt)
        for text in (mask(url), without_secrets(url)):
            shown = text.replace("***", "")
            pieces = {spelt[at : at + 4] for at in range(len(spelt) - 3)}
            assert not {piece for piece in pieces if piece in shown and piece not in form}, text


@given(passwords)
def test_no_password_of_an_address_is_shown(password):
    assume(not re.match(r"\d{1,5}/", password))  # the host and port of a path with an @
    for form in ("https://me:{}@minio:9000/x", "s3://key:{}@bucket/x?y#z"):
        shown = mask_address(form.format(password))
        pieces = {password[at : at + 4] for at in range(len(password) - 3)}
        assert not {piece for piece in pieces if piece in shown and piece not in form}, shown


@pytest.mark.parametrize(
    "told",
    [
        'invalid percent-encoded token: "{}@h/db"',
        'end of string reached in URI: "postgresql://u:{}@h/db"',
        'invalid integer value "{}" for connection option "port"',
        "failed to resolve host '{}@h': Name or service not known",
    ],
)
@given(passwords)
def test_drivers_quote_no_part_of_a_password(told, password):
    """Cut at any place: which signs end a host, a port or a token is theirs to decide."""
    url = f"postgresql://u:{password}@h/db"
    for start in range(len(password) - 3):
        piece = password[start : start + 4]
        assert piece not in scrubbed(told.format(password[start:]), url) or piece in told


def test_what_a_server_says_is_left():
    said = 'connection to server at "127.0.0.1", port 5432 failed: FATAL: role "you" is absent'
    assert scrubbed(said, "postgresql://you:hunter22@127.0.0.1/db") == said


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
        ("s3://AKIA:s3/cr3t+@bucket/x", "s3://***@bucket/x"),
        ("https://me:s3?cr3t@minio:9000/x", "https://***@minio:9000/x"),
        ("https://me:s3@cr/3t@minio:9000?x", "https://***@minio:9000?***"),
        ("https://minio:9000/me@home", None),
        ("s3://bucket/me@home:x", None),
        ("http://[::1]:9000/x", None),
        ("abfss://c@account:443/me@home", None),
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


@pytest.mark.parametrize(
    "key", ["postgresql://u:S3CRET@h/db?sslmode", "s3.http://u:S3CRET@h", "nope:S3CRET"]
)
def test_a_url_in_the_place_of_a_key_is_not_shown(key):
    """`--set URL` for `--set url=URL`."""
    with pytest.raises(ConfigError) as caught:
        resolve({key: "require"}, environment={})
    assert "S3CRET" not in str(caught.value)
