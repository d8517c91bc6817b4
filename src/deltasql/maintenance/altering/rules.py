"""What must hold before a table is altered: mapping, properties, constraints, features."""

from __future__ import annotations

from collections.abc import Mapping

from deltasql.errors import SchemaMismatchError, UnsupportedFeatureError, ValidationError
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


def must_be_mapped(state: TableState, doing: str) -> None:
    """Raise unless column mapping makes columns independent of the names in the files."""
    if state.column_mapping == "none":
        raise ValidationError(
            f"no column can be {doing} without column mapping",
            cause="existing data files identify their columns by name",
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
                f"{key} can't be set as a property",
                cause="existing rows must be checked against a constraint",
                remedy="use add_constraint and drop_constraint",
            )
        if key == TIMESTAMPS and value.lower() != "true":
            raise ValidationError(
                "in-commit timestamps can't be turned off",
                cause="a mirror that is late would change the times of its versions",
                remedy="release the table to let others write it",
            )


def fence_must_stay(state: TableState, properties: Mapping[str, str]) -> None:
    """Raise if properties contradict the table's protocol about the fence."""
    is_fenced = FENCE_FEATURE in implied_features(state.protocol)[1]
    wanted = properties.get(FENCE, "true").lower() != "false"
    if wanted != is_fenced:
        raise ValidationError(
            f"{FENCE} can't be changed: the table {'has a' if is_fenced else 'has no'} fence",
            cause="whether others may write a table is decided when it is created or adopted",
            remedy="release the table to let others write it, or create another one",
        )


# --- constraints ------------------------------------------------------------------------


def constraint_key(name: str) -> str:
    """The property that holds a constraint; Delta ignores the case of names."""
    if not name or not name.isprintable() or len(name) > 255:
        raise ValidationError(
            f"{name!r:.80} can't be the name of a constraint", remedy="choose a plain name"
        )
    return CONSTRAINT_PREFIX + name.lower()


def must_hold(name: str, condition: str, *, rows: int, kept: int) -> None:
    """Raise `SchemaMismatchError` unless a condition keeps all rows."""
    if kept < rows:
        raise SchemaMismatchError(
            f"{rows - kept} rows break the new CHECK constraint {name}: {condition}",
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
