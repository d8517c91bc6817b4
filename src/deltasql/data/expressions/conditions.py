"""A condition on the rows of a table: as the log understands it, and as the engine evaluates it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa

from deltasql.data.expressions import dialect
from deltasql.data.expressions.engine import Engine, quoted
from deltasql.data.expressions.predicates import understood
from deltasql.data.expressions.session import Session, relation_of
from deltasql.data.reading.row_filter import row_mask
from deltasql.errors import DeltaSqlError, UnsupportedFeatureError, ValidationError
from deltasql.log.predicates.binding import casts_column
from deltasql.log.predicates.predicate import Predicate, bind, parse
from deltasql.spec.schema import StructType

TARGET = "target"
# Rows are filtered batch by batch.
_MEMORY = "512MB"
Mask = Callable[[pa.RecordBatch | pa.Table], pa.Array]
_KEPT, _PLACE = "__deltasql_kept", "__deltasql_place"


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition; `predicate` is the part the log understands, all of it if `is_whole`."""

    text: str
    predicate: Predicate | None
    is_whole: bool
    sql: str = ""
    columns: tuple[str, ...] = ()

    def filtered(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of batches that satisfy it, in their order; `columns` are among theirs."""
        if self.is_whole:
            yield from batches
            return
        with Session(_MEMORY, keeps_order=True) as session:
            for batch in batches:
                kept = batch.filter(self._mask(session.engine, batch))
                if kept.num_rows:
                    yield kept

    @contextmanager
    def masking(self) -> Iterator[Mask]:
        """What says which rows of a batch or table satisfy it: unknown is no."""
        predicate = self.predicate
        if self.is_whole and predicate is not None:
            yield lambda rows: row_mask(predicate, rows)
            return
        with Session(_MEMORY, keeps_order=True) as session:
            yield lambda rows: self._mask(session.engine, rows)

    def _mask(self, engine: Engine, batch: pa.RecordBatch | pa.Table) -> pa.Array:
        # With a column of its own: a condition may name none.
        given = batch.select(list(self.columns)).append_column(_PLACE, pa.arange(0, len(batch)))
        parts = given.to_batches() if isinstance(given, pa.Table) else [given]
        with engine.reading(given.schema, parts) as name:
            asked = (
                f"SELECT coalesce({self.sql}, false) AS {_KEPT} "  # noqa: S608
                f"FROM {name} AS {quoted(TARGET)}"
            )
            return engine.table(asked).column(0).combine_chunks()


def condition_of(session: Session, schema: StructType, text: str) -> Condition:
    """A WHERE text on a table's rows."""
    if not isinstance(text, str):
        raise ValidationError(
            f"a condition must be text, not {type(text).__name__}",
            remedy="write it as in SQL: amount > 10",
        )
    try:
        return Condition(text, bind(parse(text), schema), is_whole=True)
    except DeltaSqlError:
        # The log can't express this condition.
        return _by_engine(session, schema, text)


def readable_condition(schema: StructType, text: str) -> Condition:
    """The same for readers, who need no engine where the log understands all of the text."""
    parsed: Predicate | None = None
    try:
        parsed = parse(text)
        return Condition(text, bind(parsed, schema), is_whole=True)
    except DeltaSqlError as error:
        if parsed is not None and not _may_be_for_engine(parsed, schema):
            raise
        refused = error
    with Session(_MEMORY) as session:
        try:
            session.engine.rows("SELECT 1")
        except UnsupportedFeatureError:
            # There is no engine: the log's own words say more.
            raise refused from None
        try:
            return _by_engine(session, schema, text)
        except ValidationError:
            raise refused from None


def _may_be_for_engine(predicate: Predicate, schema: StructType) -> bool:
    """Whether the engine may understand what the log does not."""
    try:
        return casts_column(predicate, schema)
    except ValidationError:
        # An unknown name may be one of the engine's: current_date, target.id.
        return True


def _by_engine(session: Session, schema: StructType, text: str) -> Condition:
    node = dialect.parse(session.engine, text)
    translator = session.translator(relation_of(schema, TARGET))
    sql = translator.condition(node)

    def own(names: Sequence[str]) -> tuple[str, ...] | None:
        found = translator.scope.find(names)
        return None if found is None else (found.column, *found.path)

    predicate, _ = understood(node, schema, own)
    columns = tuple(sorted(name for _, name in translator.used))
    return Condition(text, predicate, is_whole=False, sql=sql, columns=columns)
