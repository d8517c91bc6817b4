"""Features that ALTER TABLE … DROP FEATURE takes from a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from deltasql.errors import ValidationError
from deltasql.log.state import TableState

# What only writers must know, and what leaves no trace in files or in the history.
DROPPABLE: Final = frozenset(("checkConstraints", "identityColumns"))
OPERATION: Final = "DROP FEATURE"


def check(feature: str, state: TableState) -> None:
    """Raise `ValidationError` if a table keeps a feature; nothing has changed yet.

    Of one that the table does not have, or that nobody knows, Delta tells by itself.
    """
    if feature in DROPPABLE or feature not in state.reader_features | state.writer_features:
        return
    is_read = feature in state.reader_features
    raise ValidationError(
        f"the feature {feature} can't be dropped",
        cause="older versions may use it, and whoever reads the log without it would not know: "
        "Delta protects them with checkpoints that deltasql does not keep"
        if is_read
        else "the lake's commits rest on it, or the files bear its traces",
        remedy="turn its property off and leave it in the protocol, or write the rows into a "
        f"table without it; {', '.join(sorted(DROPPABLE))} can be dropped",
    )


def dropped_by(operation: str | None, params: Mapping[str, Any]) -> frozenset[str]:
    """The features that a commit of Delta's may take from the protocol."""
    if operation != OPERATION:
        return frozenset()
    return DROPPABLE.intersection([str(params.get("featureName", "")).strip('"')])
