"""No text that is shown has a password in it, wherever somebody typed it."""

import pickle
import string
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltasql.errors import LocationTakenError, TableNotFoundError, ValidationError
from deltasql.secrecy import Hidden, redacted

SECRET = "s3cr3t"
SIGNS = string.ascii_letters + string.digits + string.punctuation
passwords = st.text(SIGNS, min_size=6, max_size=24).filter(lambda text: not text.isdigit())


@pytest.mark.parametrize(
    "form",
    [
        "postgresql://u:{}@h:5432/db",
        "postgresql://u:{}@[::1]:5432/db",
        "postgresql://[u:{}@h/db",
        "postgresql://:{}@h/db",
        "postgresql:/u:{}@h/db",
        "postgres:u:{}@h/db",
        "u:{}@h:5432/db",
        "postgresql://u:12345/{}@h/db",
        "postgresql://u:{} x@h/db",
        "s3://AKIA:{}@bucket/x",
        "https://{}@minio:9000/x",
        "https://a.blob.core.windows.net/x?sv=1&sig={}&se=2",
        "https://h/x?X-Amz-Signature={}",
        "host=h password={} user=u",
        "host=h password='{} x' user=u",
        "{{'secret_access_key': '{}', 'x': 1}}",
        # Cut off before its end.
        "'postgresql://u:{}",
    ],
)
def test_what_looks_like_a_password_is_not_shown(form):
    for around in ("{}", "there is no table {}", "'{}' is not a name", "a\n{}\nb"):
        text = around.format(form.format(SECRET))
        assert SECRET not in redacted(text)
        assert redacted(redacted(text)) == redacted(text)


@given(passwords)
def test_no_sign_ends_a_password_early(password):
    for form in ("postgresql://u:{}@h/db", "a postgresql://u:{}@h/db b"):
        shown = redacted(form.format(password)).replace("***", "")
        pieces = {password[at : at + 4] for at in range(len(password) - 3)}
        assert not {piece for piece in pieces if piece in shown and piece not in form}, shown


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://h:5432/db?user=me",
        "postgresql://a:1,b:2/db",
        "postgresql://[::1]:5432/db",
        "postgresql://me@h/db",
        "sqlite:////data/me@home/lake.db",
        "abfss://c@account.dfs.core.windows.net/x",
        "http://127.0.0.1:8080/tables, or mail me@x.org",
        "file:///a/b:c@d/e",
        "a.b@c.d: x@y at 12:30",
        "correct the password of u: in PGPASSWORD, where @ : / ? # are written as %40",
        "such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; no option has any",
        "id = 1 AND name = 'a:b@c'",
    ],
)
def test_all_else_stays(text):
    assert redacted(text) == text


def test_no_error_shows_what_looks_like_a_password():
    url = f"postgresql://u:{SECRET}@h:5432/db"
    for error in (
        TableNotFoundError.named(url, cause=url, remedy=f"did you mean {url}?"),
        ValidationError(f"{url!r:.80} is not a name", key=url, column=url),
        ValidationError(f"{'x' * 40 + url!r:.80} is not a name"),
        LocationTakenError("taken", location=f"s3://k:{SECRET}@bucket/x", table=url),
    ):
        again = pickle.loads(pickle.dumps(error))
        for text in (str(error), repr(error), str(vars(error)), str(error.args), str(vars(again))):
            assert SECRET not in text


def test_a_hidden_text_is_itself_but_in_a_repr():
    text = Hidden(SECRET)
    assert (text, str(text), f"{text}", text.upper()) == (SECRET, SECRET, SECRET, SECRET.upper())
    assert SECRET not in repr({"key": [text]}) + f"{text!r}"
    assert pickle.loads(pickle.dumps(text)) == SECRET


@pytest.mark.parametrize(
    "piece",
    ["://a:", "://a:1/", "a%", "a.", "a:b", "?a", "?sig", "sig", "secret.", "secret", "://", "@",
     "postgres:", "postgresql://", "://[1", "x:y@", "password='", "http://a", "access_key", " = "],
)  # fmt: skip
def test_a_long_text_of_a_stranger_takes_no_time(piece):
    """Errors quote paths and names of any length."""
    for text in (piece * (200_000 // len(piece)), "://u:" + piece * 20_000, piece * 20_000 + "@"):
        started = time.process_time()
        redacted(text)
        assert time.process_time() - started < 3, (piece, text[:20])
