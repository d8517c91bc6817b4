"""Programs that are no Python of ours: Node, Polars, delta-rs; and how the service ends."""

from __future__ import annotations

import shutil
import signal
import subprocess
import threading
from pathlib import Path

import httpx
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from deltasql.serve.tokens import new_token
from tests.serve.conftest import open_lake, seed, start

EXAMPLE = Path(__file__).parents[2] / "examples" / "client.mjs"
UNITY = "/api/2.1/unity-catalog"


def test_node_reads_and_commits(service):
    node = shutil.which("node")
    assert node is not None, "Azurite's tests need it too"
    path = service.folder / "lake/hr/people/part-node.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"id": [7]}), path)
    done = subprocess.run(
        [node, EXAMPLE, service.address, "hr.people", path.name, str(path.stat().st_size)],
        capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "hr.people is at version 0",
        "columns: id int64",
        "0 live files",
        "committed as version 1, sent again: 1",
    ]
    with service.lake() as lake:
        assert lake.table("hr.people").scan().to_arrow().to_pydict() == {"id": [7]}
    missing = subprocess.run(
        [node, EXAMPLE, service.address, "no.table"],
        capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert "there is no table no.table" in missing.stderr


def test_polars_finds_and_reads_tables_by_name(service):
    catalog = pl.Catalog(service.address, bearer_token=None, require_https=False)
    assert [item.name for item in catalog.list_catalogs()] == ["lake"]
    names = [item.name for item in catalog.list_namespaces("lake")]
    assert names == ["hr", "ops", "sales"]
    assert [item.name for item in catalog.list_tables("lake", "sales")] == ["customers", "orders"]
    info = catalog.get_table_info("lake", "sales", "orders")
    assert (info.table_type, info.data_source_format) == ("EXTERNAL", "DELTA")
    assert [column.name for column in info.columns] == ["id", "day", "amount"]
    assert [column.partition_index for column in info.columns] == [None, 0, None]
    frame = catalog.scan_table("lake", "sales", "orders").collect()
    with service.lake() as lake:
        assert sorted(frame["id"].to_list()) == sorted(
            lake.table("sales.orders").scan().to_arrow().column("id").to_pylist()
        )


def test_polars_with_good_bad_and_expired_tokens_at_a_second_instance(service):
    """Beside the first one, on the same lake; what one commits the other tells."""
    tokens, text = {}, ""
    for name, more in (
        ("good", ""),
        ("expired", "expires = 2020-01-01"),
        ("hr", 'schemas = ["hr"]'),
    ):
        tokens[name], digest = new_token()
        text += f'[[tokens]]\nname = "{name}"\nsha256 = "{digest}"\n{more}\n'
    (service.folder / "tokens.toml").write_text(text)
    second = start(service.folder, "--token-file", "tokens.toml")
    try:

        def catalog(token: str) -> pl.Catalog:
            return pl.Catalog(second.address, bearer_token=token, require_https=False)

        frame = catalog(tokens["good"]).scan_table("lake", "sales", "customers").collect()
        assert sorted(frame["id"].to_list()) == [1, 2]
        for token in ("bad", tokens["expired"], tokens["hr"]):
            with pytest.raises(pl.exceptions.ComputeError):
                catalog(token).get_table_info("lake", "sales", "customers")
        commit = {"actions": [{"txn": {"appId": "two", "version": 1}}], "commit_id": "two"}
        path = "/api/v1/tables/sales.customers/commits"
        version = service.http.post(path, json=commit).json()["version"]
        second.tokens = tokens
        seen = second.http.get(f"{path}/two", headers=second.bearer("good")).json()
        assert seen["version"] == version
    finally:
        second.http.close()
        assert second.stop() == 0


def test_duckdb_reads_by_name(service):
    """With good, bad and expired tokens."""
    pytest.importorskip("duckdb_extension_unity_catalog", reason="run: make lock")
    import duckdb
    from duckdb_extensions import import_extension

    tokens = {name: new_token() for name in ("good", "old")}
    text = "".join(
        f'[[tokens]]\nname = "{name}"\nsha256 = "{digest}"\n'
        + ("expires = 2020-01-01\n" if name == "old" else "")
        for name, (_, digest) in tokens.items()
    )
    (service.folder / "duckdb.toml").write_text(text)
    second = start(service.folder, "--no-worker", "--token-file", "duckdb.toml")

    def read(token: str) -> list[tuple[int]]:
        with duckdb.connect() as connection:
            for name in ("httpfs", "delta", "unity_catalog"):
                import_extension(name)
                connection.load_extension(name)
            connection.execute(
                f"CREATE SECRET (TYPE unity_catalog, TOKEN '{token}', "
                f"ENDPOINT '{second.address}', AWS_REGION 'us-east-1')"
            )
            connection.execute("ATTACH 'lake' AS lake (TYPE unity_catalog, READ_ONLY)")
            return connection.execute("SELECT id FROM lake.sales.customers ORDER BY 1").fetchall()

    try:
        assert read(tokens["good"][0]) == [(1,), (2,)]
        for token in ("bad", tokens["old"][0]):
            with pytest.raises(duckdb.Error):
                read(token)
    finally:
        second.http.close()
        assert second.stop() == 0


def test_delta_rs_reads_at_the_storage_location(service):
    told = service.http.get(f"{UNITY}/tables/lake.sales.customers").json()
    table = DeltaTable(told["storage_location"])
    assert str(table.version()) == told["properties"]["deltasql.mirrored_version"]
    body = {"table_id": told["table_id"], "operation": "READ"}
    answer = service.http.post(f"{UNITY}/temporary-table-credentials", json=body)
    assert answer.json()["url"] == told["storage_location"]
    for operation in ("READ_WRITE", "WRITE", ""):
        body["operation"] = operation
        refused = service.http.post(f"{UNITY}/temporary-table-credentials", json=body)
        assert refused.status_code == 403


def test_the_catalog_is_paged_and_knows_its_names(service):
    params = {"catalog_name": "lake", "schema_name": "sales", "max_results": 1}
    first = service.http.get(f"{UNITY}/tables", params=params).json()
    assert [item["name"] for item in first["tables"]] == ["customers"]
    params["page_token"] = first["next_page_token"]
    second = service.http.get(f"{UNITY}/tables", params=params).json()
    assert [item["name"] for item in second["tables"]] == ["orders"]
    assert second["next_page_token"] is None
    for path in ("catalogs/other", "schemas/lake.none", "tables/lake.sales.none",
                 "schemas?catalog_name=other", "tables/other.sales.orders"):  # fmt: skip
        assert service.http.get(f"{UNITY}/{path}").status_code == 404, path


def test_the_catalog_tells_only_what_is_so(service):
    """No mirrored version of a table that has none, and every table by the name it is listed by."""
    schema = pa.schema([("id", pa.int64())])
    with service.lake() as lake:
        hidden = lake.create_table("odd.hidden", schema, properties={"mirror.mode": "off"})
        hidden.append(pa.table({"id": [1]}))
        for name in ("bare", "default.dotted", "default.both", "both"):
            lake.create_table(name, schema)
        ids = {item.name: item.table_id for item in lake.store.tables()}
    told = service.http.get(f"{UNITY}/tables/lake.odd.hidden").json()
    assert told["properties"]["deltasql.version"] == "1"
    assert "deltasql.mirrored_version" not in told["properties"]
    params = {"catalog_name": "lake", "schema_name": "default"}
    listed = service.http.get(f"{UNITY}/tables", params=params).json()["tables"]
    wanted = {"bare": "bare", "dotted": "default.dotted", "both": "both"}
    assert {item["name"] for item in listed} == set(wanted)
    assert len(listed) == len(wanted)
    for item in listed:
        found = service.http.get(f"{UNITY}/tables/{item['full_name']}").json()
        assert found["table_id"] == item["table_id"] == str(ids[wanted[item["name"]]])


def test_it_ends_in_order(tmp_path):
    """By Ctrl-C as by SIGTERM, which ends the service of every module: requests are answered."""
    seed(tmp_path)
    running = start(tmp_path)
    codes: list[int] = []
    over = threading.Event()

    def ask() -> None:
        with httpx.Client(base_url=running.address) as http:
            while not over.is_set():
                try:
                    codes.append(http.get("/api/v1/tables").status_code)
                except httpx.HTTPError:
                    return

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    while len(codes) < 20:
        assert running.process.poll() is None
    running.process.send_signal(signal.SIGINT)
    assert running.process.wait(timeout=20) == 0
    over.set()
    for thread in threads:
        thread.join()
    assert set(codes) == {200}
    assert "Traceback" not in (tmp_path / "service.log").read_text()
    with open_lake(tmp_path) as lake:
        assert lake.mirror.validate().ok
