"""Row tracking: every row of a new file gets an id, above all ids given out before.

Ids are known only once the version is, and the last id given out is part of the log (the domain
`delta.rowTracking`), so they are assigned under the head's lock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

import orjson

from deltasql.errors import LogFormatError, ValidationError
from deltasql.spec import codec
from deltasql.spec.actions import Action, AddFile, DomainMetadata, RemoveFile
from deltasql.spec.properties import (
    ROW_COMMIT_VERSION_COLUMN,
    ROW_ID_COLUMN,
    ROW_TRACKING_DOMAIN,
)

NO_ROWS: Final = -1
"""The high-water mark of a table that has given out no id yet."""

# The properties that name the columns of moved rows, and how their names begin.
ROW_TRACKING_COLUMNS: Final[Mapping[str, str]] = {
    ROW_ID_COLUMN: "_row-id-col",
    ROW_COMMIT_VERSION_COLUMN: "_row-commit-version-col",
}

_MARK = "rowIdHighWaterMark"


def assign_row_ids(
    actions: Iterable[Action], *, version: int, domains: Mapping[str, str]
) -> list[Action]:
    """The actions of version `version`, numbered; `domains` are those of the head."""
    mark = high_water_mark(domains.get(ROW_TRACKING_DOMAIN))
    return number_rows(actions, version=version, high_water_mark=mark)[0]


def high_water_mark(configuration: str | None) -> int:
    """The last row id given out, from the configuration of the domain."""
    if configuration is None:
        return NO_ROWS
    found: Any = codec.loads(configuration, source=ROW_TRACKING_DOMAIN)
    mark = found.get(_MARK) if type(found) is dict else None
    if type(mark) is not int or not NO_ROWS <= mark < 2**63:
        raise LogFormatError(
            f"the domain {ROW_TRACKING_DOMAIN} has no {_MARK}",
            cause=f"its configuration is {configuration!r:.80}",
            remedy="restore the domain: new row ids would repeat old ones",
        )
    return mark


def number_rows(
    actions: Iterable[Action], *, version: int, high_water_mark: int
) -> tuple[list[Action], int]:
    """The actions with row ids and, if ids were given out, the domain with the last one.

    A file that has its ids keeps them; one that replaces itself, with another deletion vector,
    takes them from its own remove.
    """
    given = list(actions)
    mark = max(high_water_mark, _reserved(given))
    inherited = {
        action.path: action
        for action in given
        if isinstance(action, RemoveFile) and action.base_row_id is not None
    }
    numbered: list[Action] = []
    for action in given:
        if isinstance(action, AddFile):
            add = _numbered(action, inherited.get(action.path), mark + 1, version)
            mark = max(mark, _last_id(add))
            numbered.append(add)
        elif not _is_mark(action):
            numbered.append(action)
    if mark > high_water_mark:
        text = codec.dumps({_MARK: mark}).decode()
        numbered.append(DomainMetadata(domain=ROW_TRACKING_DOMAIN, configuration=text))
    return numbered, mark


def _numbered(add: AddFile, removed: RemoveFile | None, first: int, version: int) -> AddFile:
    base, commit = add.base_row_id, add.default_row_commit_version
    if base is None and removed is not None:
        base, commit = removed.base_row_id, removed.default_row_commit_version
    if base is not None and commit is not None:
        same = base == add.base_row_id and commit == add.default_row_commit_version
        return add if same else replace(add, base_row_id=base, default_row_commit_version=commit)
    return replace(
        add,
        base_row_id=first if base is None else base,
        default_row_commit_version=version if commit is None else commit,
    )


def _last_id(add: AddFile) -> int:
    """The highest id of the file's rows; if it is empty, the one before its first."""
    assert add.base_row_id is not None
    return add.base_row_id + _rows_of(add) - 1


def _rows_of(add: AddFile) -> int:
    try:
        stats: Any = orjson.loads(add.stats or "{}")
    except ValueError:
        stats = None
    rows = stats.get("numRecords") if type(stats) is dict else None
    if type(rows) is not int or rows < 0:
        raise ValidationError(
            f"{add.path!r:.200} has no numRecords in its stats",
            cause="row tracking numbers its rows",
            remedy="write stats with numRecords",
            path=add.path,
        )
    return rows


def _is_mark(action: Action) -> bool:
    return isinstance(action, DomainMetadata) and action.domain == ROW_TRACKING_DOMAIN


def _reserved(actions: Iterable[Action]) -> int:
    """The mark that the caller's own domain action requests."""
    for action in actions:
        if isinstance(action, DomainMetadata) and _is_mark(action) and not action.removed:
            return high_water_mark(action.configuration)
    return NO_ROWS
