"""What expressions are evaluated with: the engine of one operation, and its current time."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import UTC, datetime

from deltasql.data.expressions import dialect
from deltasql.data.expressions.engine import Engine
from deltasql.data.expressions.scope import Relation, Scope
from deltasql.data.expressions.types import engine_type
from deltasql.spec.schema import StructType


class Session:
    """The engine of one operation, started when it is first needed, and its current time.

    With `keeps_order`, the rows of an answer come in the order of the rows they are made from.
    """

    def __init__(self, memory_limit: str, *, keeps_order: bool = False) -> None:
        self._memory_limit = memory_limit
        self._keeps_order = keeps_order
        self._closing = ExitStack()
        self._engine: Engine | None = None
        self.moment = datetime.now(UTC).isoformat(sep=" ")

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *error: object) -> None:
        self._closing.close()

    @property
    def engine(self) -> Engine:
        """The engine."""
        if self._engine is None:
            engine = Engine(self._memory_limit, keeps_order=self._keeps_order)
            self._engine = self._closing.enter_context(engine)
        return self._engine

    def translator(self, *relations: Relation) -> dialect.Translator:
        """A translator of expressions over some relations."""
        return dialect.Translator(Scope(self.engine, relations), self.moment)


def relation_of(schema: StructType, alias: str) -> Relation:
    """Rows of a schema as expressions see them."""
    return Relation(alias, {item.name: engine_type(item.type) for item in schema.fields})
