"""Arguments of the public classes, checked against the annotations of the methods.

A wrong type is reported under its parameter's name before anything is done, instead of failing
somewhere deep inside.
"""

from __future__ import annotations

import inspect
import math
import os
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from typing import Any, Final, NamedTuple, TypeVar

from deltasql.errors import ValidationError, quoted

C = TypeVar("C", bound=type)
F = TypeVar("F", bound=Callable[..., Any])
_LONGS: Final = range(-(2**63), 2**63)
_WORDS: Final = {
    str: "text",
    int: "a 64-bit integer",
    float: "a number",
    bool: "True or False",
    type(None): "None",
    os.PathLike: "a path",
}
_NUMBERS: Final = frozenset({int, float, bool, str})


class Check(NamedTuple):
    """Whether a value may be passed, and the words for what may be."""

    holds: Callable[[Any], bool]
    words: str
    # An iterator can be read only once: it becomes a list before its items are checked.
    is_of_names: bool = False


def checked(cls: C) -> C:
    """A class whose public methods, inherited ones included, check their arguments."""
    for name in dir(cls):
        found = inspect.getattr_static(cls, name)
        if not name.startswith("_") and isinstance(found, types.FunctionType):
            setattr(cls, name, _checking(cls, found))
    return cls


def internal(method: F) -> F:
    """A method for our own modules: what a user passed was checked where it came in, and mypy
    checks the rest. Every commit goes through half a dozen of them.
    """
    method.checks_arguments = True  # type: ignore[attr-defined]
    return method


def given_settings(settings: Any) -> Mapping[str, Any]:
    """The settings that `connect` was given; it is a function, and has no class to be checked."""
    check = Check(lambda value: isinstance(value, Mapping), "a mapping of keys to values")
    if settings is not None and not check.holds(settings):
        raise _refused("connect", "settings", check, settings)
    return settings or {}


def _checking(cls: type, method: Any) -> Any:
    if hasattr(method, "checks_arguments"):
        return method
    by_place: list[tuple[str, Check | None]] | None = None
    by_name: dict[str, Check | None] = {}
    where = f"{cls.__name__}.{method.__name__}"

    @wraps(method)
    def call(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        nonlocal by_place
        if by_place is None:
            # Only on the first call: annotations may name things that are imported later.
            found = list(_checks_of(method))
            by_name.update((name, check) for _, name, check in found)
            by_place = [(name, check) for is_placed, name, check in found if is_placed]
        # What was given, not what could be: most calls give few of many parameters.
        placed = [
            value if check is None else _passed(where, name, check, value)
            for value, (name, check) in zip(args, by_place)  # noqa: B905 - Python counts them
        ]
        for name, value in kwargs.items():
            check = by_name.get(name)
            if check is not None:
                kwargs[name] = _passed(where, name, check, value)
        return method(self, *placed, *args[len(placed) :], **kwargs)

    call.checks_arguments = True  # type: ignore[attr-defined]
    return call


def _passed(where: str, name: str, check: Check, value: Any) -> Any:
    if check.is_of_names and isinstance(value, Iterator):
        value = list(value)
    if not check.holds(value):
        raise _refused(where, name, check, value)
    return value


def _refused(where: str, name: str, check: Check, value: Any) -> ValidationError:
    kind = type(value)
    shown = quoted(value) if kind in _NUMBERS else f"a value of the type {kind.__name__}"
    return ValidationError(
        f"{where}: {name} must be {check.words}",
        cause=f"found {shown}",
        remedy=f"pass {check.words}, or leave {name} out if it has a default",
    )


def _checks_of(method: Any) -> Iterable[tuple[bool, str, Check | None]]:
    """For each parameter: whether it may be given by its place, its name, and its check if any."""
    # By hand: `inspect.signature` takes longer than many a call that is checked.
    inner = inspect.unwrap(method)
    code = inner.__code__
    names = code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]
    for place, name in enumerate(names, start=1):
        check = _check_of(_resolved(inner.__annotations__.get(name, Any), inner.__globals__))
        yield place < code.co_argcount, name, check


def _resolved(annotation: Any, names: dict[str, Any]) -> Any:
    """What an annotation means; anything, if it names what only type checkers import."""
    if not isinstance(annotation, str):
        return annotation
    try:
        return eval(annotation, names)  # noqa: S307 - our own annotations
    except NameError:
        return Any


def _check_of(kind: Any) -> Check | None:
    """The check for a type; None if anything may be passed."""
    if kind in (int, float, bool, str, None, type(None)) or kind is os.PathLike:
        return _check_of_plain(kind)
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return _check_of_any(inner)
    if origin is typing.Literal:
        words = " or ".join(repr(item) for item in inner)
        return Check(lambda value: type(value) is str and value in inner, words)
    if origin in (Sequence, Iterable, list, tuple):
        return _check_of_items(inner)
    if origin in (Mapping, dict):
        return _check_of_mapping(_check_of(inner[1]))
    if origin is os.PathLike:
        return _check_of_plain(os.PathLike)
    if origin is Callable:
        return Check(callable, "a callable")
    return _check_of_class(kind)


def _check_of_plain(kind: Any) -> Check:
    if kind is int:
        return Check(_is_integer, _WORDS[int])
    if kind is float:
        return Check(_is_number, _WORDS[float])
    if kind is str:
        return Check(_is_text, _WORDS[str])
    wanted = type(None) if kind is None else kind
    return Check(lambda value: isinstance(value, wanted), _WORDS[wanted])


def _check_of_any(kinds: Sequence[Any]) -> Check | None:
    checks = [_check_of(kind) for kind in kinds]
    known = [check for check in checks if check is not None]
    if len(known) < len(checks):
        return None
    return Check(
        lambda value: any(check.holds(value) for check in known),
        " or ".join(check.words for check in known),
        any(check.is_of_names for check in known),
    )


def _check_of_items(inner: Sequence[Any]) -> Check:
    if inner and inner[0] is str:
        return Check(_is_list_of_text, "a list of strings", is_of_names=True)
    return Check(_is_iterable, "a list")


def _check_of_mapping(values: Check | None) -> Check:
    def holds(value: Any) -> bool:
        return (
            isinstance(value, Mapping)
            and all(map(_is_text, value))
            and (values is None or all(map(values.holds, value.values())))
        )

    return Check(holds, f"a mapping from strings to {'values' if values is None else values.words}")


def _check_of_class(kind: Any) -> Check | None:
    if kind in (Any, object) or not isinstance(kind, type):
        return None
    return Check(lambda value: isinstance(value, kind), f"a {kind.__name__}")


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and "\0" not in value and (value.isascii() or _is_unicode(value))


def _is_unicode(value: str) -> bool:
    """Whether the text has no lone surrogate, which can't be encoded."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_integer(value: Any) -> bool:
    # A write's result is a subclass of int: `in` would search the range for it item by item.
    return isinstance(value, int) and not isinstance(value, bool) and int(value) in _LONGS


def _is_number(value: Any) -> bool:
    return (type(value) is float and math.isfinite(value)) or _is_integer(value)


def _is_iterable(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping)


def _is_list_of_text(value: Any) -> bool:
    return _is_iterable(value) and all(map(_is_text, value))
