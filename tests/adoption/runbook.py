"""Somebody who types what a page of the documentation says, section by section."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import deltasql
from deltasql.settings.keys import variable_of
from tests.parts.postgres import PostgresServer

DOCS = Path(__file__).parents[2] / "docs"


def sections(page: str) -> dict[str, list[tuple[str, str]]]:
    """The blocks of a page, kind and text, by the titles of its sections."""
    return {
        title.strip(): re.findall(r"```(sh|python)\n(.*?)```", text, re.DOTALL)
        for title, _, text in (
            part.partition("\n") for part in (DOCS / page).read_text().split("\n## ")[1:]
        )
    }


class Operator:
    """Knows the lake by its settings, which the shell gets as environment variables."""

    def __init__(
        self,
        page: str,
        folder: Path,
        settings: Mapping[str, str],
        server: PostgresServer | None = None,
    ) -> None:
        self._sections = sections(page)
        self.folder = folder
        self.root = folder / "lake"
        self.names: dict[str, Any] = {}
        self.settings = {"location": self.root.as_uri(), **settings}
        programs = [Path(sys.executable).parent, *([] if server is None else [server._binaries()])]
        path = ":".join([*map(str, programs), os.environ["PATH"]])
        self.environment = {variable_of(key): value for key, value in self.settings.items()}
        self._environment = {**os.environ, **self.environment, "PATH": path}

    def follow(self, title: str, *only: int) -> None:
        """Do what a section says, or some of its blocks."""
        blocks = self._sections[title]
        assert blocks, f"{title} has nothing to do"
        for number in only or range(len(blocks)):
            kind, text = blocks[number]
            if kind == "sh":
                subprocess.run(
                    ["bash", "-euc", text], cwd=self.folder, env=self._environment, check=True
                )
            else:
                exec(compile(text, title, "exec"), self.names)

    def lake(self, **settings: str) -> deltasql.Lake:
        given = {**self.settings, **{f"mirror.{key}": value for key, value in settings.items()}}
        return deltasql.connect(given.pop("url"), given.pop("location"), settings=given)

    def ids(self, name: str = "sales.orders") -> list[int]:
        table = self.names["lake"].table(name)
        return sorted(table.scan().to_arrow().column("id").to_pylist())
