"""Templates, and values as people read them."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Final
from urllib.parse import quote

from fastapi import Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from deltasql.log.timestamps import from_ms
from deltasql.serve.service import Service
from deltasql.serve.sharing import Page
from deltasql.serve.tokens import Visitor
from deltasql.version import __version__

_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_LONGEST: Final = 160
# Types, as Arrow names them, whose values are read from their right ends.
_NUMERIC: Final = ("int", "uint", "float", "double", "halffloat", "decimal")
_LONG_AGO: Final = timedelta(hours=1)
_SPANS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


@cache
def _templates() -> Environment:
    found = Environment(
        loader=PackageLoader("deltasql.serve"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= {
        "ago": ago,
        "breakable": breakable,
        "brief": brief,
        "count": count,
        "counted": counted,
        "duration": duration,
        "moment": moment,
        "segment": segment,
        "sentence": sentence,
        "shown": shown,
        "size": size,
    }
    found.tests["numeric_type"] = _is_numeric
    found.globals["release"] = __version__
    return found


def _is_numeric(kind: str) -> bool:
    return kind.startswith(_NUMERIC)


async def shared(
    request: Request, service: Service, visitor: Visitor, make: Callable[[], Page]
) -> Response:
    """A page that is made once for all who look at it at the same time with the same rights."""
    found = await service.pages.get((visitor, request.url.path, request.url.query), make)
    headers = {"etag": found.tag}
    if request.headers.get("if-none-match") == found.tag:
        return Response(status_code=304, headers=headers)
    return HTMLResponse(found.body, status_code=found.status, headers=headers)


def made(path: str, template: str, visitor: Visitor, status: int = 200, **values: Any) -> Page:
    """A page from its template, to be shared."""
    return Page(text_of(path, template, visitor, **values).encode(), status)


def page(
    request: Request, template: str, visitor: Visitor | None, status: int = 200, **values: Any
) -> Response:
    """A page from its template."""
    return HTMLResponse(text_of(request.url.path, template, visitor, **values), status_code=status)


def text_of(path: str, template: str, visitor: Visitor | None, **values: Any) -> str:
    """The text of a page."""
    return _templates().get_template(template).render(visitor=visitor, path=path, **values)


def problem_page(request: Request, status: int, told: dict[str, Any]) -> Response:
    """The page that shows a problem; a visitor without a token is asked for one."""
    if status == 401:
        # What was to be changed is not done by signing in: only a page can be shown after it.
        place = request.url.path if request.method == "GET" else "/"
        query = f"?{request.url.query}" if request.method == "GET" and request.url.query else ""
        return RedirectResponse(f"/login?next={quote(place + query, safe='/')}", status_code=303)
    if told["title"] == "TableNotFoundError":
        told = {**told, "remedy": "the overview lists those that you may see"}
    if told["title"] == "HTTPError" and status == 404:
        # The router's words are for programs.
        told = {
            **told,
            "problem": "There is no such page",
            "cause": "The address is wrong, or what was here is gone.",
            "remedy": "",
        }
    return page(request, "problem.html", None, status, told=told)


def see(path: str) -> Response:
    """Redirect to another page after a change."""
    return RedirectResponse(path, status_code=303)


def segment(text: str) -> str:
    """A text as one segment of a URL path."""
    return quote(text, safe="")


def sentence(text: str) -> str:
    """A text of an error, which begins in small, as a sentence of a page."""
    return text[:1].upper() + text[1:]


def breakable(text: str) -> Markup:
    """A name that is broken after its dots where it is too long, not within its words."""
    return Markup(".<wbr>").join(escape(part) for part in text.split("."))


def count(value: int | None) -> str:
    """A number with thousands separators."""
    return "–" if value is None else f"{value:,}".replace(",", "\u202f")


def counted(value: int | None, noun: str) -> str:
    """A number of things."""
    return f"{count(value)} {noun if value == 1 else noun + 's'}"


def size(value: int | None) -> str:
    """Bytes in the unit that leaves few digits."""
    if value is None:
        return "–"
    power = min(int(math.log(value, 1024)), len(_UNITS) - 1) if value > 0 else 0
    number = value / 1024**power
    return f"{number:.0f} {_UNITS[power]}" if power == 0 else f"{number:.1f} {_UNITS[power]}"


def duration(seconds: float) -> str:
    """Seconds in the largest unit of which there is at least one."""
    for span, unit in _SPANS:
        if seconds >= span:
            return f"{seconds / span:.0f} {unit}"
    return "0 s"


def ago(value: int | datetime) -> str:
    """How long ago a time was, in words."""
    then = from_ms(value) if isinstance(value, int) else value
    seconds = (datetime.now(UTC) - then).total_seconds()
    return "just now" if seconds < 1 else f"{duration(seconds)} ago"


def brief(value: int | datetime) -> str:
    """How long ago a time was while it is not long, then the time to the minute, in UTC."""
    then = (from_ms(value) if isinstance(value, int) else value).astimezone(UTC)
    now = datetime.now(UTC)
    if now - then < _LONG_AGO:
        return ago(then)
    if then.date() == now.date():
        return then.strftime("%H:%M")
    day = f"{then.day} {then:%b}"
    return f"{day} {then:%H:%M}" if then.year == now.year else f"{day} {then.year}"


def moment(value: int | datetime) -> str:
    """A time to the second, in UTC."""
    then = from_ms(value) if isinstance(value, int) else value
    return then.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def shown(value: Any) -> str:
    """A value of a row on one line, truncated if it is long."""
    if value is None:
        return "∅"
    text = value.hex() if isinstance(value, bytes) else str(value)
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"
