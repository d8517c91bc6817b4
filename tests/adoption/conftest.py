"""Tables that others wrote, copied to where they may be changed, and lakes to adopt them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import deltasql


@pytest.fixture
def copied(tmp_path: Path) -> Callable[[Path], Path]:
    """A copy of a table, with the times of its files."""

    def copy(source: Path) -> Path:
        target = tmp_path / "tables" / source.name
        shutil.copytree(source, target, copy_function=shutil.copy2)
        return target

    return copy


@pytest.fixture
def open_lake(
    request: pytest.FixtureRequest, tmp_path: Path, sqlite_url: str
) -> Iterator[Callable[..., Any]]:
    """Opens the same lake again and again."""
    for name in {"store_url", "postgres_url"}.intersection(request.fixturenames):
        # Before us, so that it goes after us: a publish run whose database is gone waits for it.
        request.getfixturevalue(name)
    opened: list[deltasql.Lake] = []

    def connect(url: str | None = None, **settings: Any) -> deltasql.Lake:
        lake = deltasql.connect(
            url or sqlite_url,
            location=(tmp_path / "lake").as_uri(),
            committer="me",
            settings={f"mirror.{key}": value for key, value in settings.items()},
        )
        opened.append(lake)
        return lake

    yield connect
    for lake in opened:
        lake.close()


@pytest.fixture
def lake(open_lake: Callable[..., Any]) -> Any:
    return open_lake()


@pytest.fixture
def any_lake(store_url: str, open_lake: Callable[..., Any]) -> Any:
    """The lake on each database in turn."""
    return open_lake(store_url)
