"""The protocol of a table: what it asks of readers and writers, and whether deltasql supports it.

Reader version 3 and writer version 7 list features by name; lower versions imply them. New tables
have writer version 7 and the lowest reader version that will do, so that as many readers as
possible can open the mirror.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

from deltasql.errors import LogFormatError, UnsupportedFeatureError
from deltasql.spec.actions import Protocol
from deltasql.spec.features import (
    FEATURES,
    FENCE,
    all_fields,
    needed_features,
    type_names,
    with_needs,
)
from deltasql.spec.properties import (
    CURRENT_DEFAULT,
    GENERATION_EXPRESSION,
    IDENTITY_START,
    IDENTITY_STEP,
    INVARIANTS,
)
from deltasql.spec.schema import StructType

READER_VERSION: Final = 3
WRITER_VERSION: Final = 7
# What every new table has: writers that lack the first two are rare, and the commit needs the
# third.
BASE_FEATURES: Final = frozenset({"appendOnly", "invariants", "inCommitTimestamp"})

_LEGACY_READER = [(f.legacy_reader, f.name) for f in FEATURES.values() if f.legacy_reader]
_LEGACY_WRITER = [(f.legacy_writer, f.name) for f in FEATURES.values() if f.legacy_writer]
_READER_FEATURES = frozenset(name for name, feature in FEATURES.items() if feature.reader)
_MAPPING_ALONE = frozenset({"columnMapping"})

Names = tuple[str, ...] | None


# --- what a protocol implies ----------------------------------------------------------


def implied_features(protocol: Protocol) -> tuple[frozenset[str], frozenset[str]]:
    """The features that readers, and that writers, must know; legacy versions imply theirs."""
    return _implied(
        protocol.min_reader_version,
        protocol.min_writer_version,
        protocol.reader_features,
        protocol.writer_features,
    )


@lru_cache(maxsize=1024)
def _implied(
    reader_version: int, writer_version: int, reader: Names, writer: Names
) -> tuple[frozenset[str], frozenset[str]]:
    if reader is None:
        reader = tuple(name for version, name in _LEGACY_READER if version <= reader_version)
    if writer is None:
        writer = tuple(name for version, name in _LEGACY_WRITER if version <= writer_version)
    return frozenset(reader), frozenset(writer)


# --- the protocol a table should have -------------------------------------------------


def protocol_for(schema: StructType, configuration: Mapping[str, str], *, fence: bool) -> Protocol:
    """The protocol of a new table."""
    names = BASE_FEATURES | needed_features(schema, configuration)
    return _writable(_render(names | {FENCE} if fence else names, lowest_reader=1))


def upgraded(
    protocol: Protocol,
    schema: StructType,
    configuration: Mapping[str, str],
    *,
    also: Iterable[str] = (),
) -> Protocol | None:
    """The protocol that metadata, and the features named in `also`, ask for beyond this one.

    None if this one is enough. What the old versions implied is listed by name (rule 40).
    """
    reader, writer = implied_features(protocol)
    needed = needed_features(schema, configuration) | with_needs(also)
    missing = {name for name in needed if not _has(name, reader, writer)}
    if not missing:
        return None
    lowest = (
        READER_VERSION if protocol.reader_features is not None else (protocol.min_reader_version)
    )
    return _writable(_render(writer | reader | missing, reader, lowest_reader=lowest))


def lowered(protocol: Protocol, name: str) -> Protocol:
    """The protocol without a feature; what the old versions implied is listed by name."""
    reader, writer = implied_features(protocol)
    return _writable(_render(writer - {name}, reader - {name}, lowest_reader=1))


def _has(name: str, reader: frozenset[str], writer: frozenset[str]) -> bool:
    feature = FEATURES[name]
    for known in (name, feature.preview):
        if known in writer and (not feature.reader or known in reader):
            return True
    return False


def _render(
    names: frozenset[str], reader: frozenset[str] = frozenset(), *, lowest_reader: int
) -> Protocol:
    reader = reader | (names & _READER_FEATURES)
    by_version = lowest_reader < READER_VERSION and reader <= _MAPPING_ALONE
    return Protocol(
        min_reader_version=max(lowest_reader, 2 if reader else 1) if by_version else READER_VERSION,
        min_writer_version=WRITER_VERSION,
        reader_features=None if by_version else tuple(sorted(reader)),
        writer_features=tuple(sorted(names)),
    )


def _writable(protocol: Protocol) -> Protocol:
    check_writable(protocol)
    return protocol


# --- checks ---------------------------------------------------------------------------


def check_well_formed(protocol: Protocol) -> None:
    """Raise `LogFormatError` unless versions and feature lists fit each other (rule 38)."""
    fault = _fault(protocol)
    if fault:
        raise LogFormatError(
            "the protocol action is malformed",
            cause=fault,
            remedy="correct the protocol; `deltasql.spec.protocol.protocol_for` builds one",
        )


def _fault(protocol: Protocol) -> str:
    reader, writer = protocol.min_reader_version, protocol.min_writer_version
    if reader < 1 or writer < 1:
        return f"versions start at 1, found {reader} and {writer}"
    if (protocol.reader_features is not None) != (reader == READER_VERSION):
        return f"readerFeatures belong to reader version 3 and to no other, found {reader}"
    if (protocol.writer_features is not None) != (writer == WRITER_VERSION):
        return f"writerFeatures belong to writer version 7 and to no other, found {writer}"
    if reader == READER_VERSION and writer != WRITER_VERSION:
        return f"reader version 3 requires writer version 7, found {writer}"
    read, written = implied_features(protocol)
    if protocol.reader_features is not None and not read <= written:
        return f"reader features missing in writerFeatures: {_listed(read - written)}"
    if protocol.writer_features is not None and (hidden := (written & _READER_FEATURES) - read):
        return f"features that readers must know are listed for writers only: {_listed(hidden)}"
    return ""


def check_readable(protocol: Protocol) -> None:
    """Raise `UnsupportedFeatureError` if reading needs something deltasql lacks."""
    version, features = protocol.min_reader_version, protocol.reader_features
    _refuse("read", "reader", version, READER_VERSION, _unreadable(features or ()))


def check_writable(protocol: Protocol) -> None:
    """Raise `UnsupportedFeatureError` if writing needs something deltasql lacks."""
    check_readable(protocol)
    version, features = protocol.min_writer_version, protocol.writer_features
    _refuse("write", "writer", version, WRITER_VERSION, _unwritable(features or ()))


@lru_cache(maxsize=1024)
def _unreadable(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted(n for n in names if n not in FEATURES or not FEATURES[n].read))


@lru_cache(maxsize=1024)
def _unwritable(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted(n for n in names if n not in FEATURES or not FEATURES[n].commit))


def _refuse(verb: str, side: str, version: int, newest: int, features: tuple[str, ...]) -> None:
    if version > newest:
        raise UnsupportedFeatureError(
            f"can't {verb} the table: it needs {side} version {version}",
            cause=f"deltasql knows {side} versions up to {newest}",
            remedy="use a client that knows this version, or a newer deltasql",
            features=(),
        )
    if features:
        raise UnsupportedFeatureError(
            f"can't {verb} the table: it needs {_listed(features)}",
            cause="; ".join(_why(name) for name in features),
            remedy="see docs/features.md, or use a client that has the feature",
            features=features,
        )


def _why(name: str) -> str:
    feature = FEATURES.get(name)
    return (
        f"{name!r:.80} is not a feature deltasql knows"
        if feature is None
        else (f"{name}: {feature.note}")
    )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"{name:.80}" for name in sorted(names))


# --- the plain Arrow writer -----------------------------------------------------------

_NEEDS_AN_ENGINE = {
    GENERATION_EXPRESSION: "is generated by an expression",
    IDENTITY_START: "is an identity column",
    IDENTITY_STEP: "is an identity column",
    INVARIANTS: "has an invariant",
    CURRENT_DEFAULT: "has a default expression",
}


def arrow_writer_obstacle(schema: StructType, configuration: Mapping[str, str]) -> str | None:
    """Why rows can't be written without Spark; None if they can."""
    for feature in sorted(needed_features(schema, configuration)):
        if FEATURES[feature].append == "no":
            return f"the table has the feature {feature}: {FEATURES[feature].note}"
    for name in type_names(schema):
        if name in ("variant", "void"):
            return f"the schema has a column of type {name}"
    return inner_expression(schema)


def inner_expression(schema: StructType) -> str | None:
    """The expression that a field inside another column would be computed by; None if none."""
    for field in schema.fields:
        for inner in all_fields(field.type):
            for key, reason in _NEEDS_AN_ENGINE.items():
                if key in inner.metadata:
                    return f"{inner.name!r:.80} inside {field.name!r:.80} {reason}"
    return None


def arrow_writer_computes(schema: StructType) -> str | None:
    """What is computed or generated for new rows; None if nothing is.

    CHECK constraints don't count: many are plain predicates, and the writer tries each.
    """
    for field in schema.fields:
        for key, reason in _NEEDS_AN_ENGINE.items():
            if key in field.metadata:
                return f"column {field.name!r:.80} {reason}"
    return None
