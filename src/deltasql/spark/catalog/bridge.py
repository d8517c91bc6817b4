"""The one function that Spark's driver calls: a question in JSON, an answer in JSON.

PySpark's callback server carries it. A failure is an answer, too, named by its class: the other
side raises the matching error of Spark or Delta.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from deltasql.errors import DeltaSqlError, TableExistsError
from deltasql.spark.catalog import blocks
from deltasql.spark.catalog.blocks import PlainTransaction
from deltasql.spark.catalog.commits import Commits
from deltasql.spark.catalog.histories import Histories
from deltasql.spark.catalog.names import Names, NamespaceProblem
from deltasql.spark.catalog.places import Places
from deltasql.spark.catalog.procedures import Opened, Procedures
from deltasql.spark.catalog.snapshots import Snapshots
from deltasql.spark.catalog.writers import Writers
from deltasql.spec import codec

if TYPE_CHECKING:
    from deltasql.lake.catalog import Lake

logger = logging.getLogger("deltasql.spark")

Question: TypeAlias = Mapping[str, Any]
Answers: TypeAlias = Mapping[str, Callable[[Question], Any]]

_INNER_CAPITAL = re.compile(r"(?<=[a-z])(?=[A-Z])")


class Bridge:
    """Answers the questions of one catalog; called from any thread of the driver."""

    class Java:
        """The Java interface that Py4J implements with it."""

        implements = ("java.util.function.Function",)

    def __init__(
        self,
        lake: Lake,
        set_credentials: Callable[[str], None],
        open_transaction: Callable[[], Opened] | None = None,
    ) -> None:
        self.lake = lake
        places = Places(lake, set_credentials)
        self._writers = Writers(lake)
        begin = open_transaction or partial(PlainTransaction, lake)
        self._procedures = Procedures(lake, places, begin)
        snapshots = Snapshots(lake, places)
        self._answers: Answers = {
            **Names(lake, places).answers,
            **snapshots.answers,
            **Histories(lake, places).answers,
            **Commits(lake, places, self._writers, snapshots).answers,
            **self._writers.answers,
            **self._procedures.answers,
        }

    def close(self) -> None:
        """End all writing; transactions begun in SQL are discarded."""
        self._procedures.close()
        self._writers.close()

    def apply(self, text: str) -> str:
        """The answer to a question."""
        question = codec.loads(text)
        try:
            blocks.check(question, self.lake)
            answer = {"value": self._answers[question["verb"]](question)}
        except NamespaceProblem as problem:
            answer = {"error": {"kind": problem.kind, "name": problem.namespace, "message": ""}}
        except DeltaSqlError as error:
            answer = {"error": _told(error, question)}
        except Exception as error:
            # Whatever it is, it must end the statement: the gateway would lose its message.
            logger.exception("a request from Spark failed")
            answer = {"error": _bug(error)}
        return codec.dumps(answer).decode()


def _told(error: DeltaSqlError, question: Question) -> dict[str, Any]:
    kind = type(error).__name__
    found: dict[str, Any] = {"kind": kind, "message": str(error), "condition": _condition(kind)}
    name = question.get("name") or question.get("create")
    if isinstance(error, TableExistsError):
        name = question.get("to", name)
    if isinstance(name, str):
        found["name"] = name
    return found


def _bug(error: Exception) -> dict[str, Any]:
    message = f"deltasql failed: {type(error).__name__}: {error}"
    return {"kind": "Internal", "message": message, "condition": "DELTASQL_INTERNAL_ERROR"}


def _condition(kind: str) -> str:
    """A class name as Spark names conditions: ValidationError is DELTASQL_VALIDATION."""
    words = _INNER_CAPITAL.sub("_", kind.removesuffix("Error"))
    return f"DELTASQL_{words.upper()}"
