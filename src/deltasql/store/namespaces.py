"""Namespaces that were created or described; one that only contains tables needs no row."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Protocol

from deltasql.store.rows import Row


class NamespaceLog(Protocol):
    """Names of namespaces, each with its properties as JSON."""

    def namespaces(self) -> dict[str, str]:
        """All of them, by name."""

    def create_namespace(self, name: str, properties: str) -> bool:
        """Record a namespace; False if it is already known."""

    def describe_namespace(self, name: str, properties: str) -> None:
        """Replace the properties of a namespace, known or not."""

    def drop_namespace(self, name: str) -> None:
        """Forget a namespace and those within it."""


class NamespaceQueries:
    """The same with named queries; a dialect says how to run one."""

    @abstractmethod
    def _rows(self, name: str, /, **parameters: Any) -> list[Row]:
        """All rows of a named query."""

    @abstractmethod
    def _change(self, name: str, /, **parameters: Any) -> list[Row]:
        """Run a named query that writes, in a transaction of its own."""

    def namespaces(self) -> dict[str, str]:
        return dict(self._rows("namespaces_all"))

    def create_namespace(self, name: str, properties: str) -> bool:
        return bool(self._change("namespace_create", name=name, properties=properties))

    def describe_namespace(self, name: str, properties: str) -> None:
        self._change("namespace_describe", name=name, properties=properties)

    def drop_namespace(self, name: str) -> None:
        self._change("namespaces_drop", name=name, below=f"{name}.")
