"""What Spark asks about procedures, including transactions from begin to commit."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

from deltasql.errors import DeltaSqlError, TableNotFoundError, ValidationError
from deltasql.spark.catalog import blocks
from deltasql.spark.catalog.places import Places
from deltasql.spark.catalog.procedures.procedure import Procedure, plain
from deltasql.spark.catalog.procedures.verbs import VERBS
from deltasql.spark.catalog.spelling import meant
from deltasql.spark.catalog.staging import Block, refused

if TYPE_CHECKING:
    from deltasql.lake.catalog import Lake


class Opened(Protocol):
    """A transaction that a Spark session is in."""

    @property
    def versions(self) -> Mapping[str, int]:
        """What it has committed."""

    def begin(self) -> Block:
        """Open it."""

    def end(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
    ) -> None:
        """Commit it, or discard it if there is an error."""


class RolledBackError(Exception):
    """Why a transaction ends without a commit: it was rolled back on request."""


class Procedures:
    """Answers questions about procedures, and runs their calls."""

    def __init__(self, lake: Lake, places: Places, open_transaction: Callable[[], Opened]) -> None:
        self._lake = lake
        self._places = places
        self._open_transaction = open_transaction
        self._lock = threading.Lock()
        self._begun: dict[str, Opened] = {}
        self._known: dict[str, Procedure] = {
            item.name: item
            for item in (
                *VERBS,
                Procedure(
                    name="begin",
                    about="Begin a transaction over any number of tables, in this session.",
                    columns="transaction_id STRING",
                    run=lambda _lake, given: [(self._begin(given),)],
                ),
                Procedure(
                    name="commit",
                    about="Commit what this session has written since begin, or none of it.",
                    columns="table STRING, version BIGINT",
                    run=lambda _lake, given: self._end(given).items(),
                ),
                Procedure(
                    name="rollback",
                    about="Discard what this session has written since begin.",
                    columns="transaction_id STRING",
                    run=lambda _lake, given: [(self._roll_back(given),)],
                ),
            )
        }

    @property
    def answers(self) -> Mapping[str, Callable[[Mapping[str, Any]], Any]]:
        """By verb."""
        return {
            "procedures": lambda _: sorted(self._known),
            "procedure": self._procedure,
            "call": self._call,
        }

    def close(self) -> None:
        """Discard the transactions that were begun and will no longer be committed."""
        while self._begun:
            _, opened = self._begun.popitem()
            with suppress(DeltaSqlError):
                _discard(opened)

    def _procedure(self, question: Mapping[str, Any]) -> dict[str, Any] | None:
        found = self._known.get(question["procedure"].lower())
        return None if found is None else found.described()

    def _call(self, question: Mapping[str, Any]) -> list[list[Any]]:
        wanted = self._known[question["procedure"]]
        if wanted.writes and question.get("block") is not None:
            raise refused(f"CALL {wanted.name}")
        given = dict(question["arguments"])
        if given.get("table") is not None:
            given["table"] = self._name(given["table"], question, wanted)
        given |= {"block": question.get("block"), "session_block": question.get("session_block")}
        return [[plain(value) for value in row] for row in wanted.run(self._lake, given)]

    def _name(self, name: str, question: Mapping[str, Any], wanted: Procedure) -> str:
        """A table's name as the lake has it, given with or without the catalog's, and spelt as
        the session may spell it.
        """
        catalog, any_case = question["catalog"], question["any_case"]
        short = name.removeprefix(f"{catalog}.")
        if wanted.name == "adopt":
            return short
        is_purge = wanted.name == "purge"
        dropped = [item.name for item in self._lake.dropped()] if is_purge else []
        # A name that is exactly there counts before one that is spelt otherwise.
        for in_any_case in (False, any_case):
            for spelt in (name, short):
                if is_purge:
                    found = meant(spelt, dropped, any_case=in_any_case)
                else:
                    record = self._places.named(spelt, any_case=in_any_case)
                    found = None if record is None else record.name
                if found is not None:
                    return found
        if is_purge:
            return short
        raise TableNotFoundError.named(
            short,
            cause="it was never created under this name, or was dropped",
            remedy=f"SHOW TABLES IN {catalog}.NAMESPACE lists those that there are",
        )

    # --- transactions -------------------------------------------------------------------

    def _begin(self, given: Mapping[str, Any]) -> str:
        if given["block"] is not None:
            raise blocks.nested()
        opened = self._open_transaction()
        block = opened.begin()
        with self._lock:
            self._begun[block.id] = opened
        return block.id

    def _end(self, given: Mapping[str, Any]) -> Mapping[str, int]:
        opened = self._taken(given)
        opened.end()
        return opened.versions

    def _roll_back(self, given: Mapping[str, Any]) -> str:
        _discard(self._taken(given))
        return str(given["session_block"])

    def _taken(self, given: Mapping[str, Any]) -> Opened:
        with self._lock:
            found = self._begun.pop(given["session_block"] or "", None)
        if found is not None:
            return found
        if given["session_block"] is not None:
            raise ValidationError(
                f"the transaction {given['session_block']} is not known here",
                cause="it is another catalog's, or the process that had it has ended",
                remedy="look for its id in the history of its tables: without a version it has "
                "committed nothing; then begin a new one",
            )
        if given["block"] is not None:
            raise ValidationError(
                "the transaction was not begun in SQL",
                cause="it is that of a `with db.transaction()` block",
                remedy="leave the block, or raise an error in it",
            )
        raise ValidationError(
            "no transaction is open in this session",
            cause="none was begun, or it has ended already",
            remedy="begin one: CALL lake.system.begin()",
        )


def _discard(opened: Opened) -> None:
    wish = RolledBackError("the transaction was rolled back")
    opened.end(RolledBackError, wish, None)
