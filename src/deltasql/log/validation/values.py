"""Checks for texts and nested values that every store and reader of the mirror can hold."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from deltasql.errors import ValidationError

MAX_TEXT: Final = 64 * 1024 * 1024
MAX_DEPTH: Final = 100
# Lists that contain one another many times over are small in memory but endless when written.
MAX_PARTS: Final = 200_000
# About 1,200 digits; Python itself stops printing at 4,300.
MAX_INTEGER_BITS: Final = 4096


def check_text(text: str, where: str) -> None:
    """Refuse NUL, half a surrogate pair, and absurd lengths."""
    if "\0" in text:
        raise ValidationError(
            f"{where} holds a NUL character",
            cause="PostgreSQL can't store it, and so no table may have it",
            remedy="remove the character",
        )
    if not text.isascii() and not _is_unicode(text):
        raise ValidationError(
            f"{where} is not valid text",
            cause="it holds half of a surrogate pair, which UTF-8 can't write",
            remedy="decode the text properly before passing it",
        )
    if len(text) > MAX_TEXT:
        raise ValidationError(
            f"{where} is too long",
            cause=f"it has {len(text)} characters; the limit is {MAX_TEXT}",
            remedy="keep large values in files",
        )


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_texts(values: Mapping[str, str | None], where: str) -> None:
    """Check the keys and values of a map in the same way."""
    for key, value in values.items():
        check_text(key, where)
        if value is not None:
            check_text(value, where)


def check_json(value: Any, where: str, *, max_depth: int = MAX_DEPTH) -> None:
    """Require plain JSON data throughout, neither too deep nor too much of it."""
    todo = [(value, 1)]
    parts = 0
    while todo:
        part, depth = todo.pop()
        parts += 1
        if depth > max_depth or parts > MAX_PARTS:
            raise ValidationError(
                f"{where} is nested too deeply or has too many parts",
                cause=f"the limits are {max_depth} levels and {MAX_PARTS} values",
                remedy="keep large structures in files",
            )
        if type(part) is dict:
            _check_keys(part, where)
            todo.extend((item, depth + 1) for item in part.values())
        elif type(part) is list or type(part) is tuple:
            todo.extend((item, depth + 1) for item in part)
        else:
            _check_scalar(part, where)


def _check_keys(value: dict[Any, Any], where: str) -> None:
    for key in value:
        if type(key) is not str:
            raise ValidationError(
                f"{where} has a key that is not a string",
                cause=f"found a {type(key).__name__}",
                remedy="JSON objects have string keys",
            )
        check_text(key, where)


def _check_scalar(value: Any, where: str) -> None:
    kind = type(value)
    if kind is str:
        check_text(value, where)
    elif kind is float and not math.isfinite(value):
        raise ValidationError(
            f"{where} holds {value}", cause="JSON has no such number", remedy="use null or a string"
        )
    elif kind is int and value.bit_length() > MAX_INTEGER_BITS:
        raise ValidationError(
            f"{where} holds an integer of {value.bit_length()} bits",
            cause=f"the limit is {MAX_INTEGER_BITS}",
            remedy="use a string",
        )
    elif value is not None and kind not in (bool, int, float):
        raise ValidationError(
            f"{where} holds a {kind.__name__}",
            cause="it is not JSON data",
            remedy="use strings, numbers, booleans, lists and maps with string keys",
        )
