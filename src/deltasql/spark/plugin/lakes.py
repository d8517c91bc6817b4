"""The lakes of a driver: opened by its settings, and addressed by its catalogs' names."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any
from urllib.parse import urlsplit

from deltasql.errors import ConfigError
from deltasql.lake.catalog import Lake, connect
from deltasql.settings.secrets import mask
from deltasql.spark.catalog.attaching import check_delta, check_name
from deltasql.spark.catalog.bridge import Bridge
from deltasql.spark.sessions.credentials import s3a_settings
from deltasql.spec import codec


class Lakes:
    """Answers questions, each with the settings by which Hadoop may open the locations named."""

    def __init__(self) -> None:
        self._opened = ExitStack()
        self._bridges: dict[str, Bridge] = {}
        self._asked = threading.local()

    @classmethod
    def open(cls, hello: Mapping[str, Any]) -> Lakes:
        """The lakes that a driver names; missing settings come from the environment or the file."""
        check_delta(hello["delta"])
        found = cls()
        for catalog, how in hello["catalogs"].items():
            found._open(catalog, how)
        return found

    def _open(self, catalog: str, how: Mapping[str, Any]) -> None:
        check_name(catalog)
        _must_be_public(catalog, how.get("url", ""))
        lake = self._opened.enter_context(connect(**how))
        bridge = Bridge(lake, lambda location: self._let(location, lake))
        # Before its lake: unfinished transactions are discarded.
        self._opened.callback(bridge.close)
        self._bridges[catalog] = bridge

    def _let(self, location: str, lake: Lake) -> None:
        parts = urlsplit(location)
        if parts.scheme in ("s3", "s3a"):
            self._asked.hadoop.update(s3a_settings(parts.netloc, lake.storage))

    def answer(self, message: str) -> str:
        """The settings for Hadoop, and below them the answer to a question under its catalog."""
        catalog, _, question = message.partition("\n")
        self._asked.hadoop = {}
        answer = self._bridges[catalog].apply(question)
        return f"{codec.dumps(self._asked.hadoop).decode()}\n{answer}"

    def close(self) -> None:
        """Close them all."""
        self._opened.close()


def _must_be_public(catalog: str, url: str) -> None:
    if mask(url) != url:
        raise ConfigError(
            f"spark.deltasql.catalog.{catalog}.url has a password in it",
            cause="Spark shows its settings on its pages, and writes them into its event log",
            remedy="put the URL into DELTASQL_URL or a profile of deltasql.toml, which "
            f"spark.deltasql.catalog.{catalog}.profile names",
        )
