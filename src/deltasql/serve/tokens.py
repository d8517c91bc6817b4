"""Tokens: who may ask, stored as hashes in a file that is read again when it changes."""

from __future__ import annotations

import hashlib
import hmac
import logging
import secrets
import threading
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from deltasql.errors import ConfigError

logger = logging.getLogger("deltasql.serve")

_PREFIX: Final = "dsql_"
_KEYS: Final = frozenset({"name", "kind", "sha256", "schemas", "expires"})
# The schema of tables whose name has no dot.
DEFAULT_SCHEMA: Final = "default"


class Kind(StrEnum):
    """What a token allows; an operator may also read."""

    READ = "read"
    OPERATE = "operate"


@dataclass(frozen=True, slots=True)
class Visitor:
    """The caller: what they may do, and in which schemas; None for all of them."""

    name: str
    kind: Kind
    schemas: frozenset[str] | None = None

    def sees(self, table: str) -> bool:
        """Whether a table is in one of their schemas."""
        return self.schemas is None or schema_of(table) in self.schemas

    @property
    def operates(self) -> bool:
        """Whether they may change something."""
        return self.kind is Kind.OPERATE

    @property
    def has_token(self) -> bool:
        """Whether they were asked for a token, and gave one."""
        return self is not LOCAL


# Anyone who reaches a loopback address without tokens is already on the machine.
LOCAL: Final = Visitor("local", Kind.OPERATE)


def schema_of(table: str) -> str:
    """The schema of a table: the part before the first dot of its name."""
    schema, dot, _ = table.partition(".")
    return schema if dot else DEFAULT_SCHEMA


@dataclass(frozen=True, slots=True)
class _Entry:
    visitor: Visitor
    digest: bytes
    expires: datetime | None


def new_token() -> tuple[str, str]:
    """A token of 256 random bits, and the hash that the file keeps."""
    token = _PREFIX + secrets.token_urlsafe(32)
    return token, hashlib.sha256(token.encode()).hexdigest()


class TokenFile:
    """The tokens of a TOML file: `[[tokens]]` with name, kind, sha256, schemas, expires."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._stamp: tuple[int, int] | None = None
        self._told: str | None = None
        self._entries: tuple[_Entry, ...] = ()
        self._read_again()
        if not self._entries:
            raise _bad(path, "it has no tokens", "add one: deltasql token NAME")

    def visitor(self, token: str) -> Visitor | None:
        """The owner of a token; None if it is unknown or has expired."""
        digest = hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
        found = None
        # All of them are compared, each in constant time, so that the duration reveals nothing.
        for entry in self._current():
            if hmac.compare_digest(entry.digest, digest):
                found = entry
        if found is None or (found.expires is not None and found.expires <= datetime.now(UTC)):
            return None
        return found.visitor

    def _current(self) -> tuple[_Entry, ...]:
        with self._lock:
            try:
                self._read_again()
                self._told = None
            except ConfigError as error:
                # The file is being written, or broken: the previous entries stay in force, those
                # that somebody means to revoke, too, so it must not stay unnoticed.
                if error.cause != self._told:
                    self._told = error.cause
                    logger.error(
                        "%s, the previous tokens stay in force: %s", error.problem, error.cause
                    )
            return self._entries

    def _read_again(self) -> None:
        try:
            stat = self._path.stat()
            stamp = stat.st_mtime_ns, stat.st_size
            if stamp == self._stamp:
                return
            content = tomllib.loads(self._path.read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise _bad(self._path, str(error), "give a TOML file with [[tokens]]") from None
        found = content.get("tokens", [])
        if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
            raise _bad(self._path, "tokens is not a list of tables", "begin each with [[tokens]]")
        self._entries = tuple(_entry(self._path, item) for item in found)
        self._stamp = stamp


def _entry(path: Path, item: Mapping[str, Any]) -> _Entry:
    unknown = sorted(set(item) - _KEYS)
    if unknown:
        raise _bad(path, f"a token has the key {unknown[0]!r:.40}", f"use {sorted(_KEYS)}")
    try:
        digest = bytes.fromhex(item["sha256"])
        kind = Kind(item.get("kind", "read"))
        name = item["name"]
    except (KeyError, ValueError, TypeError) as error:
        raise _bad(path, f"a token is malformed: {error}", "see docs/service.md") from None
    if not isinstance(name, str) or not name or not name.isprintable():
        raise _bad(path, f"{name!r:.40} is not a name", "name each token by who uses it")
    if len(digest) != hashlib.sha256().digest_size:
        raise _bad(path, f"the sha256 of {name!r:.40} has another length", "see docs/service.md")
    schemas = item.get("schemas")
    if schemas is not None and not (
        isinstance(schemas, list) and all(isinstance(schema, str) for schema in schemas)
    ):
        raise _bad(
            path,
            f"the schemas of {name!r:.40} are not a list of names",
            'write schemas = ["sales"]',
        )
    expires = item.get("expires")
    if expires is not None and not isinstance(expires, date):
        # A text that is taken for no date would make a token that never expires.
        raise _bad(
            path,
            f"{name!r:.40} expires at {expires!r:.40}, which is not a time",
            "write expires = 2027-01-31T00:00:00Z, without quotation marks",
        )
    return _Entry(
        Visitor(name, kind, None if schemas is None else frozenset(schemas)),
        digest,
        None if expires is None else _moment(expires),
    )


def _moment(value: date) -> datetime:
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=UTC)
    return datetime(value.year, value.month, value.day, tzinfo=UTC)


def _bad(path: Path, cause: str, remedy: str) -> ConfigError:
    return ConfigError(f"the token file {path} can't be used", cause=cause, remedy=remedy)
