"""What a notebook shows: short, right, and safe whatever is in the rows."""

from __future__ import annotations

import re

import pyarrow as pa

import deltasql

EVIL = "\x1b[2J<script>alert(1)</script>"


def test_everything_that_a_cell_ends_with(sqlite_url, tmp_path):
    with deltasql.connect(sqlite_url, location=str(tmp_path / "lake"), committer=EVIL) as lake:
        table = lake.create_table(
            "sales.orders", pa.schema([("id", pa.int64()), ("x", pa.string())])
        )
        written = table.append(pa.table({"id": [1234567], "x": [EVIL]}))
        with lake.transaction() as tx:
            tx.table("sales.orders").append(pa.table({"id": [2], "x": ["b"]}))
            assert repr(tx) == "<Transaction open>"
        assert repr(tx) == "<Transaction ended: sales.orders at 2>"
        shown = {
            "lake": lake,
            "table": table,
            "snapshot": table.snapshot(),
            "scan": table.scan(),
            "history": table.history(),
            "audit": lake.audit(changes=True),
            "status": lake.mirror.status(),
            "tables": lake.tables(),
            "written": written,
            "transaction": tx,
        }
        html = {name: item._repr_html_() for name, item in shown.items()}
        for name, text in html.items():
            assert "<table>" in text, name
            assert EVIL not in text, name
        assert "&lt;script&gt;" in html["scan"]
        assert "error message" not in html["status"], "it would be empty"
        assert "True" not in html["history"]
        assert "+00:00" not in html["table"]
        assert "1234567" in html["scan"]
        assert "<td>2</td>" in html["transaction"]
        assert "rows added" in html["audit"]
        assert "table id" not in html["audit"], "for programs"
        assert "numOutputRows" in html["written"]
        assert repr(table.scan(limit=3)) == "<Scan of version 2: 2 columns, at most 3 rows>"
        assert table.history() == list(table.history()), "it is a list as before"
        prompt = repr(table.history()).splitlines()
        assert re.fullmatch(r"version +timestamp +operation +committer.*", prompt[0])
        assert prompt[-1].startswith("      0  20")
        assert max(map(len, repr(lake.audit(changes=True)).splitlines())) <= 80
        assert repr(lake.tables()) == "[<Table sales.orders>]"
        assert "\\x1b[2J" in repr(lake.audit(table="sales.*")), "shown, not obeyed"
        lake.drop_table("sales.orders")
        assert "there is no table" in table._repr_html_(), "showing never fails"


def test_what_operations_did_is_short(sqlite_url, tmp_path):
    with deltasql.connect(sqlite_url, location=str(tmp_path / "lake")) as lake:
        table = lake.create_table("sales.orders", "id BIGINT")
        for number in range(3):
            table.append([{"id": number}])
        reports = [
            table.optimize(),
            table.vacuum(),
            table.expire(),
            table.mirror.repair(),
            table.mirror.cleanup(dry_run=True),
            table.mirror.validate(),
            table.restore(version=1),
            table.mirror.export(str(tmp_path / "copy")),
            lake.rebuild("sales.orders"),
        ]
        for report in reports:
            text, html = repr(report), report._repr_html_()
            assert text.startswith(type(report).__name__ + "(")
            assert "\n" not in text
            assert "<table>" in html
            for nothing in ("=[]", "=None", "=0,", "=''", "={}", "=()"):
                assert nothing not in text
        assert "'numRemovedFiles': 3" in repr(reports[0])
        assert "numRemovedFiles</th><td>3</td>" in reports[0]._repr_html_()
        assert "retention=7 days" in repr(reports[1])
        assert "retention</th><td>7 days</td>" in reports[1]._repr_html_()
        assert repr(reports[5]).startswith("ValidationReport(ok=True, table='sales.orders'")
        for report in (lake.check(), lake.mirror.validate(), lake.recover()):
            lines = repr(report).splitlines()
            assert lines[0].startswith(type(report).__name__)
            assert "sales.orders" in lines[-1]
            assert "<table>" in report._repr_html_()
