"""Credentials for readers of a table in a bucket: what they open, and what they never do."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime

import obstore
import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from obstore.exceptions import BaseError
from obstore.store import S3Store

import deltasql
from deltasql.errors import StoreError
from deltasql.objectstore import open_store
from deltasql.serve.problems import Refused
from deltasql.serve.tokens import new_token
from deltasql.serve.unity import sas, sts, vending
from deltasql.serve.unity.vending import Vending
from tests.parts import azurite as azurite_part
from tests.parts.seaweedfs import ACCESS_KEY, BUCKET, SECRET_KEY
from tests.serve.conftest import start
from tests.sizes import FULL

UNITY = "/api/2.1/unity-catalog"
FAR = "s3://bucket/lake/orders"


@pytest.fixture(scope="module")
def lake(seaweedfs, tmp_path_factory):
    """A service for a lake in a bucket: tables side by side, tokens for one schema and for all."""
    folder = tmp_path_factory.mktemp("vending")
    url, location = f"sqlite:///{folder / 'lake.db'}", seaweedfs.location("vending")
    with deltasql.connect(url, location=location, settings=seaweedfs.options()) as lake:
        for name, ids in (("sales.orders", [1, 2]), ("sales.orders_old", [3]), ("hr.people", [4])):
            rows = pa.table({"id": ids})
            lake.create_table(name, rows.schema).append(rows)
    tokens, text = {}, ""
    for name, more in (
        ("all", ""),
        ("sales", 'schemas = ["sales"]'),
        ("old", "expires=2020-01-01"),
    ):
        tokens[name], digest = new_token()
        text += f'[[tokens]]\nname = "{name}"\nsha256 = "{digest}"\n{more}\n'
    (folder / "tokens.toml").write_text(text)
    env = {f"DELTASQL_{key.upper().replace('.', '_')}": value
           for key, value in seaweedfs.options().items()}  # fmt: skip
    running = start(folder, "--token-file", "tokens.toml", env=env, url=url, location=location)
    running.tokens = tokens
    yield running
    running.http.close()
    assert running.stop() == 0
    # Keys are in no log.
    log = (folder / "service.log").read_text()
    assert SECRET_KEY not in log
    assert "Traceback" not in log


def ask(lake, table: str, token: str = "all", operation: str = "READ"):
    told = lake.http.get(f"{UNITY}/tables/lake.{table}", headers=lake.bearer("all")).json()
    body = {"table_id": told["table_id"], "operation": operation}
    path = f"{UNITY}/temporary-table-credentials"
    return lake.http.post(path, json=body, headers=lake.bearer(token))


def store_of(seaweedfs, answer) -> S3Store:
    keys = answer.json()["aws_temp_credentials"]
    return S3Store(
        BUCKET,
        config={"endpoint": f"http://127.0.0.1:{seaweedfs.port}", "region": "us-east-1", **keys},
        client_options={"allow_http": True},
        retry_config={"max_retries": 0},
    )


def test_they_read_their_folder_and_nothing_else(lake, seaweedfs):
    answer = ask(lake, "sales.orders", "sales")
    assert answer.status_code == 200, answer.text
    assert SECRET_KEY not in answer.text
    left = answer.json()["expiration_time"] / 1000 - datetime.now(UTC).timestamp()
    assert 0 < left <= 3601
    store, own = store_of(seaweedfs, answer), "vending/sales/orders"
    commit = f"_delta_log/{1:020}.json"
    assert b"commitInfo" in bytes(obstore.get(store, f"{own}/{commit}").bytes())
    listed = [item["path"] for item in obstore.list(store, own).collect()]
    assert any(path.endswith(".parquet") for path in listed)
    refused = [
        lambda: obstore.get(store, f"vending/hr/people/{commit}"),
        # Its name begins with the same letters.
        lambda: obstore.get(store, f"vending/sales/orders_old/{commit}"),
        lambda: obstore.list(store, "vending/sales/orders_old").collect(),
        lambda: obstore.list(store, "vending").collect(),
        lambda: obstore.list(store).collect(),
        lambda: obstore.put(store, f"{own}/{commit}", b"x"),
        lambda: obstore.put(store, f"{own}/new", b"x"),
        lambda: obstore.delete(store, f"{own}/{commit}"),
        lambda: obstore.copy(store, f"{own}/{commit}", f"{own}/copy"),
    ]
    for call in refused:
        with pytest.raises(BaseError):
            call()
    # The same ones are handed out while they are good.
    assert ask(lake, "sales.orders", "sales").json() == answer.json()


def test_who_gets_none(lake):
    assert ask(lake, "hr.people", "sales").status_code == 404
    assert ask(lake, "sales.orders", "old").status_code == 401
    for operation in ("READ_WRITE", "WRITE", "read", ""):
        assert ask(lake, "sales.orders", operation=operation).status_code == 403
    body = {"table_id": "1' OR 1=1 --"}
    path = f"{UNITY}/temporary-table-credentials"
    assert lake.http.post(path, json=body, headers=lake.bearer("all")).status_code == 404
    assert lake.http.post(path, json=body).status_code == 401


def test_polars_reads_with_them(lake, seaweedfs):
    where = {"aws_endpoint_url": f"http://127.0.0.1:{seaweedfs.port}", "aws_region": "us-east-1",
             "aws_allow_http": "true"}  # fmt: skip

    def read(token: str) -> list[int]:
        catalog = pl.Catalog(lake.address, bearer_token=token, require_https=False)
        frame = catalog.scan_table("lake", "sales", "orders", storage_options=where).collect()
        return sorted(frame["id"].to_list())

    assert read(lake.tokens["sales"]) == [1, 2]
    for token in ("bad", lake.tokens["old"]):
        with pytest.raises(pl.exceptions.ComputeError):
            read(token)


def test_duckdb_reads_with_them_at_another_endpoint(lake, seaweedfs):
    """The extension takes no endpoint; a secret of the reader's own has one, and is nearer."""
    import duckdb
    from duckdb_extensions import import_extension

    told = ask(lake, "sales.orders", "sales").json()
    keys = told["aws_temp_credentials"]
    with duckdb.connect() as connection:
        for name in ("httpfs", "delta", "unity_catalog"):
            import_extension(name)
            connection.load_extension(name)
        connection.execute(
            f"CREATE SECRET (TYPE unity_catalog, TOKEN '{lake.tokens['sales']}', "
            f"ENDPOINT '{lake.address}', AWS_REGION 'us-east-1')"
        )
        connection.execute(
            f"CREATE SECRET orders (TYPE s3, KEY_ID '{keys['access_key_id']}', "
            f"SECRET '{keys['secret_access_key']}', SESSION_TOKEN '{keys['session_token']}', "
            f"ENDPOINT '127.0.0.1:{seaweedfs.port}', URL_STYLE 'path', USE_SSL false, "
            f"REGION 'us-east-1', SCOPE '{told['url']}/')"
        )
        connection.execute("ATTACH 'lake' AS lake (TYPE unity_catalog, READ_ONLY)")
        found = connection.execute("SELECT id FROM lake.sales.orders ORDER BY 1").fetchall()
    assert found == [(1,), (2,)]


def test_delta_rs_reads_with_them_at_the_storage_location(lake, seaweedfs):
    told = ask(lake, "sales.orders", "sales").json()
    where = {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{seaweedfs.port}", "AWS_ALLOW_HTTP": "true",
             "AWS_REGION": "us-east-1"}  # fmt: skip
    keys = {f"aws_{name}": value for name, value in told["aws_temp_credentials"].items()}
    rows = DeltaTable(told["url"], storage_options={**where, **keys}).to_pyarrow_table()
    assert sorted(rows.column("id").to_pylist()) == [1, 2]


if FULL:

    @pytest.mark.timeout(300)
    def test_delta_rs_reads_uc_addresses(lake, seaweedfs):
        """In processes of their own: delta-rs often stops in a lock of its own."""
        options = {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{seaweedfs.port}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
            "unity_workspace_url": lake.address,
            "unity_access_token": lake.tokens["sales"],
            "unity_allow_http_url": "true",
        }
        program = f"""from deltalake import DeltaTable
table = DeltaTable("uc://lake.sales.orders", storage_options={options!r})
print(sorted(table.to_pyarrow_table().column("id").to_pylist()))"""
        for _ in range(20):
            try:
                done = subprocess.run([sys.executable, "-c", program], timeout=10, check=True,
                                      capture_output=True, text=True)  # fmt: skip
            except subprocess.TimeoutExpired:
                continue
            assert done.stdout.strip() == "[1, 2]"
            return
        pytest.fail("it stopped twenty times in a row")


def test_a_server_that_ignores_the_policy_is_found_out(seaweedfs, monkeypatch):
    """Its STS answers with keys that may do everything: nobody gets them."""
    wide = sts.Credentials(ACCESS_KEY, SECRET_KEY, "", datetime(2100, 1, 1, tzinfo=UTC))
    monkeypatch.setattr(vending, "assume_role", lambda *_, **__: wide)
    location = seaweedfs.location("vending/sales/orders")
    with pytest.raises(Refused) as refused:
        Vending(seaweedfs.options(), "auto")(location)
    # Nor do those that only write too much, and the attempt leaves nothing behind.
    monkeypatch.setattr(vending, "_is_refused", _only_writes_are_allowed(vending._is_refused))
    with pytest.raises(Refused):
        Vending(seaweedfs.options(), "auto")(location)
    left = [item.path for item in open_store(location, seaweedfs.options()).list()]
    assert not [path for path in left if "probe" in path]
    assert refused.value.status == 501
    assert "ignores the policy" in refused.value.cause


def _only_writes_are_allowed(look):
    """Reads elsewhere are refused; the third attempt, a write, is the store's to answer."""
    calls = iter(range(100))
    return lambda call: True if next(calls) < 2 else look(call)


def test_a_signature_for_a_folder_of_azure():
    """The same as Microsoft's own library makes (azure-storage-file-datalake 12.26.1,
    generate_directory_sas).
    """
    span = datetime(2026, 11, 18, 16, tzinfo=UTC), datetime(2026, 11, 18, 17, tzinfo=UTC)
    account = sas.Account(azurite_part.ACCOUNT, azurite_part.KEY)
    token = sas.signed(account, "lake", "team/sales/orders", span=span, protocol="https")
    assert token == (
        "st=2026-11-18T16%3A00%3A00Z&se=2026-11-18T17%3A00%3A00Z&sp=rl&spr=https&sv=2022-11-02"
        "&sr=d&sdd=3&sig=2PUGzNw%2Bn52ftlr9bDKDjgIRYGehzr0qYCMhpi7rxIE%3D"
    )
    assert azurite_part.KEY not in repr(account)


def test_an_account_without_folders_gives_none(azurite):
    """Azurite is such a one: it refuses the signature, and nothing wider is handed out instead."""
    location = azurite.location("vending/orders")
    with pytest.raises(Refused) as refused:
        Vending(azurite.options(), "auto")(location)
    assert refused.value.status == 501
    assert "hierarchical namespace" in refused.value.cause


@pytest.mark.parametrize("leak", range(1, 4))
def test_a_signature_that_can_do_more_is_found_out(leak, azurite, monkeypatch):
    """Folder yes, the rest no: then it is handed out; with any of the rest it is not."""
    answers = iter([False, *(number != leak for number in range(1, 4))])
    monkeypatch.setattr(vending, "_is_refused", lambda _: next(answers))
    with pytest.raises(Refused, match="no credentials"):
        Vending(azurite.options(), "auto")(azurite.location("vending/orders"))
    answers = iter([False, True, True, True])
    lend = Vending(azurite.options(), "auto")
    given = lend(azurite.location("vending/orders"))
    assert "sr=d" in given["azure_user_delegation_sas"]["sas_token"]
    assert azurite_part.KEY not in str(given)
    assert lend(azurite.location("vending/orders")) == given


@pytest.mark.parametrize(
    ("location", "how", "options", "told"),
    [
        (FAR, "off", {}, "is off"),
        (FAR, "auto", {"s3.access_key_id": "a", "s3.secret_access_key": "b"}, "a role is needed"),
        (FAR, "arn:aws:iam::1:role/r", {}, "no access key"),
        (FAR, "auto", {"s3.access_key_id": "a", "s3.secret_access_key": "b",
                       "s3.endpoint": "http://127.0.0.1:1"}, "https only"),
        ("az://lake/orders", "auto", {}, "no account key"),
        ("az://lake/orders", "off", {}, "is off"),
        ("az://lake", "auto", {}, "whole bucket"),
        ("abfss://lake@other.dfs.core.windows.net/orders", "auto",
         {"azure.account_name": "mine", "azure.account_key": "a2V5"}, "another storage account"),
        ("gs://lake/orders", "auto", {}, "limited to a folder"),
        ("s3://bucket", "auto", {}, "whole bucket"),
        ("s3://bucket/", "auto", {}, "whole bucket"),
        ("s3://bucket/lake/a*", "auto", {}, "a special meaning"),
        ("s3://bucket/lake/a?b", "auto", {}, "whole bucket"),
        ("s3://bucket/lake/${aws:username}", "auto", {}, "a special meaning"),
        ("s3://bucket/lake/../other", "auto", {}, "a special meaning"),
    ],
)  # fmt: skip
def test_what_is_not_vended(location, how, options, told, monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(Refused) as refused:
        Vending(options, how)(location)
    assert refused.value.status == 501
    assert told in refused.value.cause


@pytest.mark.parametrize("endpoint", ["https://[", "https://x]", "https://h:x", "https://\u2100"])
def test_an_endpoint_that_is_no_address(endpoint, monkeypatch):
    """From AWS's own variables: as a setting, some of these are refused by name."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    keys = {"s3.access_key_id": "a", "s3.secret_access_key": "b"}
    with pytest.raises(StoreError, match="no credentials"):
        Vending(keys, "auto")(FAR)
