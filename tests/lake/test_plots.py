"""`table.plot()`, and what `dir` shows of a lake and its tables."""

from __future__ import annotations

import sys

import pytest

import deltasql
from deltasql.lake.looking.plotting import moments_of


def test_files_and_bytes_are_those_of_each_version(lake, orders, rows):
    sizes = {}
    for day in ("2026-11-01", "2026-11-02", "2026-11-02"):
        orders.append(rows(1, 2, day=day))
    orders.optimize()
    orders.overwrite(rows(9), where="day = '2026-11-01'")
    for version in range(orders.version + 1):
        files = orders.snapshot(version).files()
        sizes[version] = files.num_rows, sum(files.column("size").to_pylist())
    moments = moments_of(orders)
    assert {item.version: (item.files, item.size_bytes) for item in moments} == sizes
    assert [item.timestamp for item in moments] == [
        entry.timestamp for entry in reversed(orders.history())
    ]
    assert [item.version for item in moments_of(orders, limit=2)] == list(sizes)[-2:]


def test_the_figure(sqlite_url, tmp_path):
    with deltasql.connect(sqlite_url, location=str(tmp_path / "lake")) as lake:
        table = lake.create_table("a.b", data=[{"id": 1}])
        for number in range(3):
            table.append([{"id": number}])
        figure = table.plot()
        files, sizes, commits = figure.axes
        assert list(files.lines[0].get_ydata()) == [1, 2, 3, 4]
        assert files.get_title(loc="left") == "a.b"
        assert sum(bar.get_height() for bar in commits.patches) == 4
        assert sizes.get_ylabel() == "bytes"
        assert figure._repr_png_().startswith(b"\x89PNG")


def test_without_matplotlib_the_remedy_is_told(sqlite_url, tmp_path, monkeypatch):
    with deltasql.connect(sqlite_url, location=str(tmp_path / "lake")) as lake:
        table = lake.create_table("a.b", data=[{"id": 1}])
        for name in [key for key in sys.modules if key.partition(".")[0] == "matplotlib"]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setitem(sys.modules, "matplotlib", None)
        with pytest.raises(deltasql.ConfigError, match="pip install matplotlib"):
            table.plot()


def test_dir_shows_the_public_names_alone(sqlite_url, tmp_path):
    with deltasql.connect(sqlite_url, location=str(tmp_path / "lake")) as lake:
        table = lake.create_table("a.b", data=[{"id": 1}])
        for thing in (lake, table):
            names = dir(thing)
            assert all(hasattr(thing, name) for name in names)
            assert not [name for name in names if name.startswith("_")]
        assert {"tables", "create_table", "audit", "url"} <= set(dir(lake))
        assert not {"store", "engine", "presence", "create_with"} & set(dir(lake))
        assert not {"commit_request", "send", "must_be_current"} & set(dir(table))
