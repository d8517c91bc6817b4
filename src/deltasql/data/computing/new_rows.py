"""The rows that a write brings: their values, and the rules of the table that they obey.

Defaults, generated columns, CHECK constraints and invariants are the table's own expressions. They
are evaluated by the same engine and in the same dialect as the user's; a table with rules that the
engine can't express is refused.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from deltasql.data.computing.identity import is_identity, takes_values
from deltasql.data.expressions import dialect
from deltasql.data.expressions.engine import quoted, text
from deltasql.data.expressions.scope import OWN
from deltasql.data.expressions.session import Session, relation_of
from deltasql.data.expressions.types import engine_type
from deltasql.errors import SchemaMismatchError, UnsupportedFeatureError, ValidationError
from deltasql.spec import codec
from deltasql.spec.features import type_names
from deltasql.spec.properties import (
    CONSTRAINT_PREFIX,
    CURRENT_DEFAULT,
    GENERATION_EXPRESSION,
    INVARIANTS,
)
from deltasql.spec.protocol import inner_expression
from deltasql.spec.schema import StructField, StructType

_PART = re.compile(r'`((?:[^`]|``)+)`|"((?:[^"]|"")+)"|([^.`"]+)')
ROW = "row"
_DEFAULT = "DEFAULT"


@dataclass(frozen=True, slots=True)
class Rule:
    """A condition that every new row must fulfil, and its name."""

    name: str
    sql: str


class NewRows:
    """Makes the rows of a table from expressions over the relations of an operation."""

    def __init__(self, session: Session, schema: StructType, properties: Mapping[str, str]) -> None:
        self._session = session
        self._schema = schema
        self._row = relation_of(schema, ROW)
        self._generated = {
            item.name: str(item.metadata[GENERATION_EXPRESSION])
            for item in self._schema.fields
            if GENERATION_EXPRESSION in item.metadata
        }
        self._checks = list(self._rules(properties))

    # --- values -------------------------------------------------------------------------

    def values(
        self,
        translator: dialect.Translator,
        given: Mapping[str, str],
        *,
        old: str | None,
        alias: str,
        numbers: Mapping[str, str] | None = None,
    ) -> dict[str, str]:
        """The SQL of each column: as set, else as it was in `old`, else its default or null.

        `numbers` is the SQL of identity columns for new rows. A column that is set to DEFAULT gets
        the value that it has in a new row that does not set it.
        """
        found: dict[str, str] = {}
        inside: dict[str, list[tuple[tuple[str, ...], str]]] = {}
        for key, expression in given.items():
            parts = self._parts(key, alias)
            item = self._field(parts[0])
            if item.name in found or (item.name in inside and len(parts) == 1):
                raise ValidationError(f"{key!r:.80} is set twice", remedy="set it once")
            if len(parts) == 1 and _is_default(expression):
                _must_be_settable(item, is_update=old is not None, is_default=True)
                found[item.name] = self._value(item, numbers or {}, None)
                continue
            _must_be_settable(item, is_update=old is not None)
            node = dialect.parse(self._session.engine, expression)
            if len(parts) == 1:
                found[item.name] = translator.value(node, engine_type(item.type))
            else:
                inner = _nested(item, parts[1:], key, is_insert=old is None)
                value = translator.value(node, engine_type(inner.type))
                inside.setdefault(item.name, []).append((parts[1:], value))
        for name, fields in inside.items():
            base = f"{quoted(old or '')}.{quoted(name)}"
            found[name] = _with_fields(base, self._field(name), fields)
        found = {**(numbers or {}), **found}
        return {item.name: self._value(item, found, old) for item in self._schema.fields}

    def _value(self, item: StructField, found: Mapping[str, str], old: str | None) -> str:
        if item.name in found:
            return found[item.name]
        nothing = f"CAST(NULL AS {engine_type(item.type)})"
        if item.name in self._generated:
            return nothing
        if old is not None:
            return f"{quoted(old)}.{quoted(item.name)}"
        if CURRENT_DEFAULT in item.metadata:
            node = dialect.parse(self._session.engine, str(item.metadata[CURRENT_DEFAULT]))
            return self._session.translator().value(node, engine_type(item.type))
        return nothing

    def completing(self, filled: Collection[str]) -> dict[str, str]:
        """The SQL of each column, for rows that have some of them: the others' default, or null."""
        found = {name: f"{quoted(ROW)}.{quoted(name)}" for name in filled}
        return {item.name: self._value(item, found, None) for item in self._schema.fields}

    def set_names(self, given: Mapping[str, str], alias: str) -> set[str]:
        """The columns that a clause sets to something other than DEFAULT."""
        return {
            self._field(self._parts(key, alias)[0]).name
            for key, expression in given.items()
            if not _is_default(expression)
        }

    def _parts(self, key: str, alias: str) -> tuple[str, ...]:
        parts = name_parts(key)
        if len(parts) == 1 or parts[0].lower() not in (alias.lower(), "target"):
            return parts
        is_struct = self._schema.field(parts[1]) is None and self._schema.field(parts[0])
        return parts if is_struct else parts[1:]

    def _field(self, name: str) -> StructField:
        item = self._schema.field(name)
        if item is None:
            raise SchemaMismatchError(
                f"the table has no column {name!r:.80}",
                cause=f"its columns are {', '.join(item.name for item in self._schema.fields)}",
                remedy="name one of them; a merge with_schema_evolution() adds those of its source",
                column=name,
            )
        return item

    # --- rows ---------------------------------------------------------------------------

    def made(
        self, query: str, explicit: Collection[str], *, partly: Collection[str] = ()
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a query that has every column; `explicit` are columns that were set.

        Generated columns are computed, or must equal what they were set to; those that were set
        only in some rows are `partly` explicit, and null in the others. Raises
        `SchemaMismatchError` for rows that break a rule of the table.
        """
        must_be_writable(self._schema)
        generated = {
            name: self._over_row(expression, self._field(name))
            for name, expression in self._generated.items()
        }
        filled = [
            f"{sql} AS {quoted(name)}"
            for name, sql in generated.items()
            if name not in {*explicit, *partly}
        ]
        filled += [
            f"coalesce({quoted(ROW)}.{quoted(name)}, {sql}) AS {quoted(name)}"
            for name, sql in generated.items()
            if name in partly
        ]
        rules = [
            *self._checks,
            *(
                Rule(f"the generation expression of {name}", _same(ROW, name, sql))
                for name, sql in generated.items()
                if name in explicit or name in partly
            ),
        ]
        if filled:
            query = f"SELECT * REPLACE ({', '.join(filled)}) FROM ({query}) AS {quoted(ROW)}"  # noqa: S608
        asked = [f"{rule.sql} AS {OWN}rule_{n}" for n, rule in enumerate(rules)]
        chosen = ", ".join(["*", *asked])
        query = f"SELECT {chosen} FROM ({query}) AS {quoted(ROW)}"  # noqa: S608
        for batch in self._session.engine.stream(query):
            yield _obeying(batch, rules)

    def _over_row(self, expression: str, item: StructField) -> str:
        node = dialect.parse(self._session.engine, expression)
        return self._session.translator(self._row).value(node, engine_type(item.type))

    def _rules(self, properties: Mapping[str, str]) -> Iterator[Rule]:
        for key, condition in properties.items():
            if key.startswith(CONSTRAINT_PREFIX):
                name = key.removeprefix(CONSTRAINT_PREFIX)
                yield Rule(f"CHECK constraint {name}: {condition}", self._rule(condition))
        for item in self._schema.fields:
            if INVARIANTS in item.metadata:
                condition = _invariant(str(item.metadata[INVARIANTS]))
                yield Rule(f"the invariant of {item.name}: {condition}", self._rule(condition))

    def _rule(self, condition: str) -> str:
        node = dialect.parse(self._session.engine, condition)
        return self._session.translator(self._row).condition(node)


def must_be_writable(schema: StructType) -> None:
    """Raise `UnsupportedFeatureError` if rows of the table can't be written from Arrow."""
    odd = [name for name in type_names(schema) if name in ("variant", "void")]
    cause = f"the schema has a column of type {odd[0]}" if odd else inner_expression(schema)
    if cause is not None:
        raise UnsupportedFeatureError(
            "these rows can't be written without Spark",
            cause=cause,
            remedy="write the table with Spark (see docs/features.md)",
        )


def name_parts(key: str) -> tuple[str, ...]:
    """The parts of a column's name, without quotes."""
    found = tuple(_unquoted(match) for match in _PART.finditer(str(key)))
    if not found:
        raise ValidationError(
            f"{key!r:.80} is not a column name", remedy="name a column of the table"
        )
    return found


def _unquoted(match: re.Match[str]) -> str:
    if match[1]:
        return match[1].replace("``", "`")
    return match[2].replace('""', '"') if match[2] else match[3].strip()


def _obeying(batch: pa.RecordBatch, rules: Sequence[Rule]) -> pa.RecordBatch:
    width = batch.num_columns - len(rules)
    for position, rule in enumerate(rules):
        # As in Delta, a row breaks a rule that is null for it.
        kept = pc.sum(pc.fill_null(batch.column(width + position), fill_value=False)).as_py() or 0
        if kept < batch.num_rows:
            raise SchemaMismatchError(
                f"{batch.num_rows - kept} rows break {rule.name}",
                cause="the condition is false or null for them",
                remedy="leave these rows out, or change the rule",
            )
    return batch.select(list(range(width)))


def _same(alias: str, name: str, sql: str) -> str:
    return f"({quoted(alias)}.{quoted(name)} IS NOT DISTINCT FROM {sql})"


def _invariant(given: str) -> str:
    found = codec.loads(given, source=INVARIANTS)
    inner = found.get("expression", {}) if isinstance(found, dict) else {}
    condition = inner.get("expression") if isinstance(inner, dict) else None
    if not isinstance(condition, str):
        raise UnsupportedFeatureError(
            "a column's invariant can't be parsed",
            cause=f"it is {given!r:.80}",
            remedy="write the table with Spark",
        )
    return condition


def _is_default(expression: object) -> bool:
    return isinstance(expression, str) and expression.strip().upper() == _DEFAULT


def _must_be_settable(item: StructField, *, is_update: bool, is_default: bool = False) -> None:
    if not is_identity(item) or (not is_update and (is_default or takes_values(item))):
        return
    raise ValidationError(
        f"the column {item.name!r} can't be set",
        cause="it is an identity column"
        + (", and rows keep their number" if is_update else ", GENERATED ALWAYS"),
        remedy="leave it out; the table numbers its rows",
    )


def _nested(item: StructField, path: Sequence[str], key: str, *, is_insert: bool) -> StructField:
    for name in path:
        inner = item.type.field(name) if isinstance(item.type, StructType) else None
        if inner is None or is_insert:
            raise SchemaMismatchError(
                f"{key!r:.80} can't be set",
                cause="an inserted row has no struct yet"
                if is_insert
                else f"{item.name!r} has no field {name!r:.80}",
                remedy="set the whole column",
            )
        item = inner
    return item


def _with_fields(base: str, item: StructField, given: Sequence[tuple[tuple[str, ...], str]]) -> str:
    """A struct with some fields set; if it is null, so are the others, as in stock Delta."""
    whole = [value for path, value in given if not path]
    if whole:
        return whole[-1]
    if not given or not isinstance(item.type, StructType):
        return base
    parts = []
    for inner in item.type.fields:
        mine = [(path[1:], value) for path, value in given if path[0].lower() == inner.name.lower()]
        value = _with_fields(f"struct_extract({base}, {text(inner.name)})", inner, mine)
        parts.append(f"{quoted(inner.name)} := {value}")
    return f"struct_pack({', '.join(parts)})"
