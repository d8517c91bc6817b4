"""What must hold before a table is altered: mapping, properties, constraints, features."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

import pyarrow as pa

from deltasql.data.reading.row_filter import row_mask
from deltasql.errors import SchemaMismatchError, UnsupportedFeatureError, ValidationError
from deltasql.log.predicates.predicate import Predicate, bind, columns, parse
from deltasql.log.state import TableState
from deltasql.spec.features import FEATURES
from deltasql.spec.features import FENCE as FENCE_FEATURE
from deltasql.spec.properties import (
    COLUMN_MAPPING_MODE,
    CONSTRAINT_PREFIX,
    FENCE,
    TIMESTAMPS,
)
from deltasql.spec.protocol import implied_features
from deltasql.spec.schema import StructType

# Reads the rows, with some columns only.
Scan: TypeAlias = Callable[[Sequence[str]], Iterable[pa.RecordBatch]]


def must_be_mapped(state: TableState, doing: str) -> None:
    """Raise unless column mapping makes columns independent of the names in the files."""
    if state.column_mapping == "none":
        raise ValidationError(
            f"without column mapping no column can be {doing}",
            cause="the data files that are there know their columns by name",
            remedy="pass enable_column_mapping=True: it sets "
            f"{COLUMN_MAPPING_MODE} to name first, and from then on readers must support "
            "column mapping",
        )


# --- properties -------------------------------------------------------------------------


def must_be_plain(properties: Mapping[str, str]) -> None:
    """Raise unless the values are texts, and the properties may be set directly."""
    for key, value in properties.items():
        if type(key) is not str or type(value) is not str:
            raise ValidationError(
                f"the property {key!r:.80} is {value!r:.80}",
                cause="the keys and values of properties are strings",
                remedy='write it as a string, such as "true" or "10"',
            )
        if key.lower().startswith(CONSTRAINT_PREFIX):
            raise ValidationError(
                f"{key} is no property to set",
                cause="existing rows must be checked against a constraint",
                remedy="use add_constraint and drop_constraint",
            )
        if key == TIMESTAMPS and value.lower() != "true":
            raise ValidationError(
                "in-commit timestamps can't be turned off",
                cause="a mirror that is late would change the times of its versions",
                remedy="release the table, if others shall write it",
            )


def fence_must_stay(state: TableState, properties: Mapping[str, str]) -> None:
    """Raise if properties contradict the table's protocol about the fence."""
    is_fenced = FENCE_FEATURE in implied_features(state.protocol)[1]
    wanted = properties.get(FENCE, "true").lower() != "false"
    if wanted != is_fenced:
        raise ValidationError(
            f"{FENCE} can't be changed: the table {'has a' if is_fenced else 'has no'} fence",
            cause="whether others may write a table is settled when it is created or adopted",
            remedy="release the table, if others shall write it, or create another one",
        )


# --- constraints ------------------------------------------------------------------------


def constraint_key(name: str) -> str:
    """The property that holds a constraint; Delta ignores the case of names."""
    if not name or not name.isprintable() or len(name) > 255:
        raise ValidationError(
            f"{name!r:.80} can't be the name of a constraint", remedy="choose a plain name"
        )
    return CONSTRAINT_PREFIX + name.lower()


def enforceable(schema: StructType, name: str, text: str) -> Predicate:
    """A constraint's condition; refused if only a SQL engine could enforce it."""
    try:
        return bind(parse(text), schema)
    except ValidationError as error:
        raise UnsupportedFeatureError(
            f"the CHECK constraint {name}, {text!r:.200}, can't be checked here",
            cause=error.problem,
            remedy="say it in comparisons, AND, OR, NOT, IN, LIKE and IS NULL; anything else "
            "needs an engine for every write",
        ) from None


def must_hold(schema: StructType, scan: Scan, condition: Predicate, rule: str) -> None:
    """Raise `SchemaMismatchError` if a row breaks a condition; null breaks it, as in Delta."""
    named = sorted({path[0].lower() for path in columns(condition)})
    names = [item.name for item in schema.fields if item.name.lower() in named]
    broken = 0
    for batch in scan(names):
        broken += batch.num_rows - (row_mask(condition, batch).true_count)
    if broken:
        raise SchemaMismatchError(
            f"{broken} rows break the new CHECK constraint {rule}",
            cause="the condition is false or null for them; nothing was committed",
            remedy="correct these rows first, or change the condition",
        )


# --- features ---------------------------------------------------------------------------


def known_feature(name: str) -> str:
    """A feature's name as Delta writes it, if deltasql can commit to tables that have it."""
    found = next((known for known in FEATURES if known.lower() == name.lower()), None)
    if found is None or not FEATURES[found].commit:
        why = "deltasql knows no such feature" if found is None else FEATURES[found].note
        raise UnsupportedFeatureError(
            f"the feature {name!r:.80} can't be enabled",
            cause=why,
            remedy="see docs/features.md",
            features=(name,),
        )
    return found
