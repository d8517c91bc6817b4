"""Meaningless properties of tables that others wrote: each is logged once, then ignored."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from weakref import WeakKeyDictionary

from deltasql.log.retention import faults
from deltasql.store.interface import LogStore

logger = logging.getLogger("deltasql.mirror")

# What was already logged, by lake: every publish run checks, but once per process is enough.
_said: WeakKeyDictionary[LogStore, set[tuple[int, str, str]]] = WeakKeyDictionary()


def warn_of_faults(log: LogStore, table_id: int, properties: Mapping[str, str]) -> None:
    """Log a warning for each property that is ignored in favour of its default."""
    said = _said.setdefault(log, set())
    for key, fault in faults(properties).items():
        value = properties[key]
        if (table_id, key, value) not in said:
            said.add((table_id, key, value))
            logger.warning(
                "table %d: the default applies, because %s, and is %.80r",
                table_id,
                fault,
                value,
                extra={"key": key, "error": fault},
            )
