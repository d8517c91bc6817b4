"""Who may ask: tokens, their kinds and schemas, other sites, other addresses."""

from __future__ import annotations

import hashlib
import socket
import ssl
import subprocess
from pathlib import Path

import httpx
import pytest

from deltasql.errors import ConfigError
from deltasql.serve import running
from deltasql.serve.running import Address, serve
from deltasql.serve.tokens import TokenFile, new_token
from tests.faults.waiting import until
from tests.serve.conftest import open_lake, seed, start

T = "/api/v1/tables/sales.orders"


def entry(name: str, digest: str, kind: str = "read", more: str = "") -> str:
    return f'[[tokens]]\nname = "{name}"\nkind = "{kind}"\nsha256 = "{digest}"\n{more}\n'


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A service that any machine may reach: with tokens and TLS."""
    folder = tmp_path_factory.mktemp("guarded")
    seed(folder)
    tokens, text = {}, ""
    for name, kind, more in (
        ("reader", "read", ""),
        ("operator", "operate", ""),
        ("sales", "operate", 'schemas = ["sales"]'),
        ("old", "operate", "expires = 2020-01-01T00:00:00Z"),
    ):
        tokens[name], digest = new_token()
        text += entry(name, digest, kind, more)
    (folder / "tokens.toml").write_text(text)
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "key.pem",
         "-out", "cert.pem", "-days", "2", "-subj", "/CN=localhost"],
        cwd=folder, check=True, capture_output=True,
    )  # fmt: skip
    files = ("--token-file", "tokens.toml", "--tls-cert", "cert.pem", "--tls-key", "key.pem")
    found = start(folder, "--host", "0.0.0.0", *files)
    found.address = found.address.replace("0.0.0.0", "127.0.0.1")
    found.http = httpx.Client(base_url=found.address, timeout=20, verify=False)
    found.tokens = tokens
    yield found
    found.http.close()
    assert found.stop() == 0


def test_without_a_token_nothing_is_told(guarded):
    for path in ("/api/v1/tables", "/metrics", T, "/api/2.1/unity-catalog/catalogs"):
        answer = guarded.http.get(path)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"
        assert "sales" not in answer.text
    for path in ("/", "/tables/sales.orders", "/audit"):
        answer = guarded.http.get(path)
        assert (answer.status_code, answer.headers["location"]) == (303, f"/login?next={path}")
    assert guarded.http.get("/healthz").status_code == 200
    assert guarded.http.get("/readyz").status_code == 200


@pytest.mark.parametrize("token", ["x", "dsql_", "ü", "a" * 5000, "' OR 1=1 --", "\udc80"])
def test_bad_tokens(guarded, token):
    header = b"Bearer " + token.encode("utf-8", "surrogateescape")
    assert guarded.http.get(T, headers={b"Authorization": header}).status_code == 401


def test_an_expired_token_and_another_scheme(guarded):
    assert guarded.http.get(T, headers=guarded.bearer("old")).status_code == 401
    basic = {"Authorization": f"Basic {guarded.tokens['reader']}"}
    assert guarded.http.get(T, headers=basic).status_code == 401


def test_readers_read_and_operators_operate(guarded):
    reader, operator = guarded.bearer("reader"), guarded.bearer("operator")
    assert guarded.http.get(T, headers=reader).status_code == 200
    assert guarded.http.get("/metrics", headers=reader).status_code == 200
    for path in (f"{T}/validate", f"{T}/repair", f"{T}/check", "/tables/sales.orders/mirror/pause"):
        assert guarded.http.post(path, headers=reader).status_code == 403
    commit = {"actions": [{"txn": {"appId": "a", "version": 1}}]}
    assert guarded.http.post(f"{T}/commits", headers=reader, json=commit).status_code == 403
    done = guarded.http.post(f"{T}/commits", headers=operator, json=commit)
    assert done.status_code == 201
    # Nobody signs with another's name.
    forged = {"userName": "ana", "userId": "1", "operation": "WRITE", "tool": "loader"}
    commit = {"actions": [{"txn": {"appId": "a", "version": 2}}, {"commitInfo": forged}]}
    done = guarded.http.post(f"{T}/commits", headers=operator, json=commit)
    assert done.status_code == 201
    found = guarded.http.get(f"{T}/history?limit=2", headers=reader).json()["versions"]
    assert [item["version"]["committer"] for item in found] == ["operator", "operator"]
    with guarded.lake() as lake:
        (record,) = lake.store.commits(
            lake.table("sales.orders").table_id, after=found[1]["version"]["version"]
        )
    assert b'"userName":"operator"' in record.body
    assert b'"tool":"loader"' in record.body
    assert b"ana" not in record.body
    assert b"userId" not in record.body


def test_a_token_for_one_schema_sees_nothing_else(guarded):
    mine = guarded.bearer("sales")
    found = guarded.http.get("/api/v1/tables", headers=mine).json()["tables"]
    assert {item["name"] for item in found} == {"sales.customers", "sales.orders"}
    for path in ("", "/snapshot", "/files", "/history", "/mirror"):
        assert guarded.http.get(f"/api/v1/tables/hr.people{path}", headers=mine).status_code == 404
    assert guarded.http.post("/api/v1/tables/hr.people/check", headers=mine).status_code == 404
    for path in ("/api/v1/sessions", "/metrics"):
        assert guarded.http.get(path, headers=mine).status_code == 403
    audit = guarded.http.get("/api/v1/audit", headers=mine).json()["entries"]
    assert {item["table"] for item in audit} == {"sales.customers", "sales.orders"}
    schemas = guarded.http.get(
        "/api/2.1/unity-catalog/schemas?catalog_name=lake", headers=mine
    ).json()["schemas"]
    assert [item["name"] for item in schemas] == ["sales"]
    for page in ("/", "/audit"):
        text = guarded.http.get(page, headers=mine).text
        assert "sales.orders" in text
        assert "hr.people" not in text


def test_no_name_is_suggested_that_a_visitor_may_not_see(guarded):
    mine = {"Authorization": f"Bearer {guarded.tokens['sales']}"}
    answer = guarded.http.get("/api/v1/tables/sales.hr_people/mirror", headers=mine)
    assert answer.status_code == 404
    assert "there is no table sales.hr_people" in answer.text
    assert "hr.people" not in answer.text
    assert "did you mean" not in answer.text


def test_a_body_is_read_only_of_who_may_send_it(guarded):
    """Who has no token is refused before they have sent it: nobody waits for it, or keeps it."""
    context = ssl._create_unverified_context()
    for token, status in (("no", 401), (guarded.tokens["reader"], 403)):
        with socket.create_connection(("127.0.0.1", httpx.URL(guarded.address).port), 15) as plain:
            connection = context.wrap_socket(plain)
            head = [f"POST {T}/commits HTTP/1.1", "Host: localhost", "Content-Length: 16000000",
                    "Content-Type: application/json", f"Authorization: Bearer {token}"]  # fmt: skip
            connection.sendall("\r\n".join([*head, "", '{"actions": [']).encode())
            assert int(connection.recv(1000).split()[1]) == status
    credentials = "/api/2.1/unity-catalog/temporary-table-credentials"
    much = {"table_id": "1", "unknown": "x" * 5000}
    answer = guarded.http.post(credentials, json=much, headers=guarded.bearer("reader"))
    assert answer.status_code == 413
    assert guarded.http.post("/login", data={"token": "x" * 5000}).status_code == 413
    commit = '{"actions": [{"txn": {"appId": "a", "version": 1}}]}'
    headers = {**guarded.bearer("operator"), "Content-Type": "text/plain"}
    assert guarded.http.post(f"{T}/commits", content=commit, headers=headers).status_code == 415


def test_who_has_to_sign_in_first_comes_back_to_a_page(guarded):
    query = "?where=id%20%3C%203"
    asked = guarded.http.get(f"/tables/sales.orders/files{query}")
    with httpx.Client(base_url=guarded.address, verify=False) as browser:
        form = browser.get(asked.headers["location"]).text
        assert 'value="/tables/sales.orders/files?where=id%20%3C%203"' in form
    # What a button would have changed is not done by signing in.
    pressed = guarded.http.post("/tables/sales.orders/jobs/check")
    assert pressed.headers["location"] == "/login?next=/"


def test_the_cookie_of_the_dashboard(guarded):
    with httpx.Client(base_url=guarded.address, verify=False) as browser:
        wrong = browser.post("/login", data={"token": "no"})
        assert wrong.status_code == 401
        assert not browser.cookies
        onward = browser.post(
            "/login", data={"token": guarded.tokens["operator"], "next": "//evil.example/"}
        )
        assert onward.headers["location"] == "/"
        cookie = onward.headers["set-cookie"].lower()
        assert all(word in cookie for word in ("httponly", "samesite=strict", "secure"))
        assert browser.get("/").status_code == 200
        # A change needs to come from a page of ours.
        path = "/tables/sales.orders/jobs/check"
        assert browser.post(path).status_code == 403
        for headers in (
            {"Origin": "https://evil.example"},
            {"Origin": "null"},
            {"Origin": guarded.address, "Sec-Fetch-Site": "cross-site"},
            {"Sec-Fetch-Site": "same-site"},
        ):
            assert browser.post(path, headers=headers).status_code == 403
        mine = {"Origin": guarded.address, "Sec-Fetch-Site": "same-origin"}
        assert browser.post(path, headers=mine).status_code == 303
        # Behind a proxy that names the service by its own address.
        proxied = {"Origin": "https://lake.example", "Sec-Fetch-Site": "same-origin"}
        assert browser.post(path, headers=proxied).status_code == 303
        assert browser.post(path, headers={"Origin": "https://lake.example"}).status_code == 403
        # Nobody else signs a visitor out, or in as somebody.
        other = {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}
        assert browser.post("/logout", headers=other).status_code == 403
        assert browser.post("/login", data={"token": "x"}, headers=other).status_code == 403
        assert browser.post("/login", headers={"Origin": "null"}).status_code == 403
        assert browser.get("/").status_code == 200
        browser.post("/logout", headers=mine)
        assert browser.get("/").status_code == 303


def test_the_file_keeps_hashes_and_is_read_again(guarded):
    text = (guarded.folder / "tokens.toml").read_text()
    assert not any(token in text for token in guarded.tokens.values())
    token, digest = new_token()
    assert hashlib.sha256(token.encode()).hexdigest() == digest
    header = {"Authorization": f"Bearer {token}"}
    assert guarded.http.get(T, headers=header).status_code == 401
    (guarded.folder / "tokens.toml").write_text(text + entry("late", digest))
    assert guarded.http.get(T, headers=header).status_code == 200
    # Half a file takes nobody's right away, and gives none; nor is it silent.
    for broken in ("[[tokens]]\nname=", "tokens = 5", "tokens = [1]"):
        (guarded.folder / "tokens.toml").write_text(broken)
        assert guarded.http.get(T, headers=header).status_code == 200
        assert guarded.http.get(T, headers=guarded.bearer("old")).status_code == 401
    # Once for each cause; the log comes a moment later.
    log = guarded.folder / "service.log"
    until(lambda: log.read_text().count("stay in force: ") == 2)
    (guarded.folder / "tokens.toml").write_text(text)
    assert guarded.http.get(T, headers=header).status_code == 401


def test_tls_is_tls(guarded):
    port = httpx.URL(guarded.address).port
    with socket.create_connection(("127.0.0.1", port), timeout=5) as plain:
        context = ssl.create_default_context()
        with pytest.raises(ssl.SSLCertVerificationError):
            context.wrap_socket(plain, server_hostname="localhost")


@pytest.mark.parametrize(
    ("address", "token_file", "told"),
    [
        (Address(host="0.0.0.0"), None, "can't be served without tokens"),
        (Address(host="example.org"), None, "can't be served without tokens"),
        (Address(host="192.0.2.1"), "none.toml", "token file"),
        (Address(), "empty.toml", "it has no tokens"),
        (Address(), "unknown.toml", "a token has the key"),
        (Address(certificate=Path("cert.pem")), None, "TLS needs a certificate and its key"),
        (Address(host="192.0.2.1", port=1), "good.toml", "192.0.2.1:1 can't be served"),
    ],
)
def test_what_it_refuses_to_serve(tmp_path, address, token_file, told):
    (tmp_path / "empty.toml").write_text("")
    (tmp_path / "unknown.toml").write_text('[[tokens]]\nname = "a"\npassword = "b"\n')
    (tmp_path / "good.toml").write_text(entry("a", new_token()[1]))
    with open_lake(tmp_path) as lake, pytest.raises(ConfigError) as error:
        serve(lake, address, token_file=None if token_file is None else tmp_path / token_file)
    assert told in f"{error.value.problem} {error.value.cause}"


@pytest.mark.parametrize(
    ("more", "told"),
    [
        # Taken for no time, each of these would be a token that never expires.
        ('expires = "2020-01-01"', "not a time"),
        ("expires = 1577836800", "not a time"),
        ("expires = 12:00:00", "not a time"),
        ("expires = [2020-01-01]", "not a time"),
        ('schemas = "sales"', "not a list of names"),
        ("schemas = [1]", "not a list of names"),
        ('kind = "admin"', "malformed"),
        ("kind = 1", "malformed"),
    ],
)
def test_a_token_that_says_something_else_than_it_seems(tmp_path, more, told):
    path = tmp_path / "tokens.toml"
    digest = new_token()[1]
    path.write_text(f'[[tokens]]\nname = "a"\nsha256 = "{digest}"\n{more}\n')
    with pytest.raises(ConfigError) as error:
        TokenFile(path)
    assert told in error.value.cause
    for text in ("tokens = 5", "tokens = [1]", f'[[tokens]]\nname = 1\nsha256 = "{digest}"',
                 f'[[tokens]]\nname = "a\\u0000b"\nsha256 = "{digest}"'):  # fmt: skip
        path.write_text(text)
        with pytest.raises(ConfigError):
            TokenFile(path)


def test_a_day_is_when_a_token_ends(tmp_path):
    path = tmp_path / "tokens.toml"
    token, digest = new_token()
    for day, is_known in (("2020-01-01", False), ("2999-01-01", True)):
        path.write_text(entry("a", digest, more=f"expires = {day}"))
        assert (TokenFile(path).visitor(token) is not None) is is_known


def test_answers_on_a_kept_connection_are_not_held_back():
    """asyncio turns Nagle's algorithm off only where the socket says that it is TCP's."""
    with running.listen(Address(port=0)) as listening:
        assert listening.proto == socket.IPPROTO_TCP


def test_ids_lead_nowhere_for_who_may_not_see_the_table(guarded):
    """A job's, a commit's and a table's id, and a predicate's words, of another schema."""
    operator, mine, reader = (guarded.bearer(name) for name in ("operator", "sales", "reader"))
    job = guarded.http.post("/api/v1/tables/hr.people/check", headers=operator).json()["id"]
    for method, path in (("GET", f"/api/v1/jobs/{job}"), ("DELETE", f"/api/v1/jobs/{job}"),
                         ("POST", f"/jobs/{job}/cancel")):  # fmt: skip
        assert guarded.http.request(method, path, headers=mine).status_code == 404
    assert job not in guarded.http.get("/api/v1/jobs", headers=mine).text
    assert guarded.http.delete(f"/api/v1/jobs/{job}", headers=reader).status_code == 403
    commit = {"commit_id": "theirs", "actions": [{"txn": {"appId": "x", "version": 1}}]}
    path = "/api/v1/tables/hr.people/commits"
    assert guarded.http.post(path, headers=operator, json=commit).status_code == 201
    assert guarded.http.get(f"{path}/theirs", headers=mine).status_code == 404
    assert guarded.http.get(f"{T}/commits/theirs", headers=mine).status_code == 404
    for where in ("id IN (SELECT id FROM hr.people)", "hr.people.id = 1", "1=1 UNION SELECT 1"):
        answer = guarded.http.get(f"{T}/files", params={"where": where}, headers=mine)
        assert answer.status_code == 422, where
    for name in ("sales.orders/../hr.people", "sales.orders%2F..%2Fhr.people", "SALES.orders",
                 "sales..hr.people", "hr.people#sales.orders"):  # fmt: skip
        answer = guarded.http.get(f"/api/v1/tables/{name}", headers=mine)
        assert answer.status_code in (404, 422), name
    told = guarded.http.get("/api/2.1/unity-catalog/tables/lake.hr.people", headers=reader).json()
    body = {"table_id": told["table_id"]}
    path = "/api/2.1/unity-catalog/temporary-table-credentials"
    assert guarded.http.post(path, json=body, headers=mine).status_code == 404
