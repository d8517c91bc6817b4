"""What a report of an error may show: what rich, IPython, pytest, Sentry and loggers look at."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import traceback
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

_OURS = Path(__file__).parents[1]
_DEEP = 4
_LEAVES = (bytes, int, float, type(None), FrameType, TracebackType)


def shown(error: BaseException) -> Iterator[tuple[str, str]]:
    """Every text about an error, with the way to it: of those that it replaced, too."""
    for way, here in _chain(error):
        yield f"{way}: text", str(here)
        yield f"{way}: repr", repr(here)
        yield f"{way}: notes", repr(getattr(here, "__notes__", ()))
        yield f"{way}: traceback", "".join(traceback.format_exception(here))
        for name, value in inspect.getmembers(here, lambda item: not callable(item)):
            if not name.startswith("__") or name in ("__dict__", "__slots__"):
                yield from _inside(f"{way}.{name}", value, _DEEP)
        yield from _inside(f"{way}.args", here.args, _DEEP)
        for frame in _frames(here):
            where = f"{way}: {frame.f_code.co_qualname}"
            for name, value in frame.f_locals.items():
                yield from _printed(f"{where}: {name}", value, _DEEP)
    try:
        pickled = pickle.dumps(error)
    except (TypeError, AttributeError, pickle.PicklingError):
        return  # one of Spark's, which holds the JVM's
    yield "pickle", pickled.decode("latin-1")
    yield "unpickled", str(pickle.loads(pickled))
    yield "copy", repr(vars(copy.copy(error)))


def leaks(error: BaseException, *secrets: str) -> list[str]:
    """The ways to a secret."""
    return [way for way, text in shown(error) if any(secret in text for secret in secrets)]


def _chain(error: BaseException) -> Iterator[tuple[str, BaseException]]:
    seen: set[int] = set()
    ahead: list[tuple[str, BaseException | None]] = [("error", error)]
    while ahead:
        way, here = ahead.pop()
        if here is None or id(here) in seen:
            continue
        seen.add(id(here))
        yield way, here
        ahead += [(f"{way}.__cause__", here.__cause__), (f"{way}.__context__", here.__context__)]
        ahead += [(f"{way}.exceptions", item) for item in getattr(here, "exceptions", ())]


def _frames(error: BaseException) -> Iterator[FrameType]:
    """The calls that ended with it; a test knows the secrets that it gives away."""
    trace = error.__traceback__
    while trace is not None:
        if not Path(trace.tb_frame.f_code.co_filename).is_relative_to(_OURS):
            yield trace.tb_frame
        trace = trace.tb_next


def _printed(way: str, value: Any, depth: int) -> Iterator[tuple[str, str]]:
    """What is printed of a variable: its repr, and what containers and dataclasses have inside."""
    yield way, _repr(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        inner = {
            f".{field.name}": getattr(value, field.name, None)
            for field in dataclasses.fields(value)
            if field.repr
        }
    else:
        inner = _items(value)
    for name, item in inner.items() if depth else ():
        yield from _printed(f"{way}{name}", item, depth - 1)


def _inside(way: str, value: Any, depth: int) -> Iterator[tuple[str, str]]:
    """Whatever hangs on an error, by attribute and by item."""
    yield way, value.decode("latin-1") if isinstance(value, bytes) else _repr(value)
    if isinstance(value, str):
        yield way, str(value)
    elif depth and not isinstance(value, _LEAVES) and not callable(value):
        for name, item in (_items(value) or _attributes(value)).items():
            yield from _inside(f"{way}{name}", item, depth - 1)


def _items(value: Any) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return {f"[{key!r}]": item for key, item in list(value.items())}
    if isinstance(value, list | tuple | set | frozenset):
        return {f"[{place}]": item for place, item in enumerate(value)}
    return {}


def _attributes(value: Any) -> dict[str, Any]:
    found = {}
    for name in dir(value):
        if not name.startswith("_"):
            with suppress(Exception):  # a property may raise anything
                inner = getattr(value, name)
                if not callable(inner):
                    found[f".{name}"] = inner
    return found


def _repr(value: Any) -> str:
    try:
        return repr(value)
    except Exception as failure:  # noqa: BLE001 - whatever it is, reports go on
        return f"no repr: {failure!r}"
