"""Identifies the caller: by a token in the header, by the dashboard's cookie, or by being local."""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated, Final

from fastapi import Depends, Request

from deltasql.serve.problems import Refused
from deltasql.serve.service import Service, service_of
from deltasql.serve.tokens import LOCAL, Visitor

COOKIE: Final = "deltasql_token"
_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_LONGEST_TOKEN: Final = 200
# A name or an address, one of IPv6 in brackets, and perhaps a port; nothing else.
_HOST: Final = re.compile(r"([A-Za-z0-9.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(:[0-9]{0,5})?")


def is_loopback(host: str) -> bool:
    """Whether a host names this machine and nothing else."""
    name = host.strip("[]").lower()
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


async def reading(request: Request, service: Annotated[Service, Depends(service_of)]) -> Visitor:
    """The caller, if they may read; otherwise raises `Refused`.

    Asynchronous as all of these, because they wait for nothing: a thread would cost more.
    """
    if service.tokens is None:
        # Any page in the user's browser may send requests here under a host name of its own.
        if not is_loopback(_host_of(request.headers.get("host", ""))):
            raise Refused(
                421,
                "this address is not served",
                cause="without tokens only requests to localhost are answered",
                remedy="ask for http://127.0.0.1, or start the service with --token-file",
            )
        must_be_own_page(request, needs_origin=False)
        return LOCAL
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return _known(service, given.strip())
    cookie = request.cookies.get(COOKIE)
    if cookie:
        must_be_own_page(request, needs_origin=True)
        return _known(service, cookie)
    raise Refused(
        401,
        "a token is needed",
        cause="the request has none",
        remedy="send Authorization: Bearer …; deltasql token makes one",
    )


async def operating(visitor: Annotated[Visitor, Depends(reading)]) -> Visitor:
    """The caller, if they may change something; otherwise raises `Refused`."""
    if not visitor.operates:
        raise Refused(
            403,
            "this token only reads",
            cause="the request changes something",
            remedy="use a token of kind operate",
        )
    return visitor


async def seeing_all(visitor: Annotated[Visitor, Depends(reading)]) -> Visitor:
    """The caller, if they may see the whole lake; otherwise raises `Refused`."""
    if visitor.schemas is not None:
        raise Refused(
            403,
            "this token covers only some schemas",
            cause="the answer is about the whole lake",
            remedy="use a token without schemas",
        )
    return visitor


Served = Annotated[Service, Depends(service_of)]
Reader = Annotated[Visitor, Depends(reading)]
Operator = Annotated[Visitor, Depends(operating)]
LakeReader = Annotated[Visitor, Depends(seeing_all)]


def _known(service: Service, token: str) -> Visitor:
    assert service.tokens is not None
    found = service.tokens.visitor(token) if 0 < len(token) <= _LONGEST_TOKEN else None
    if found is None:
        raise Refused(
            401,
            "the token is not accepted",
            cause="it is unknown, or it has expired",
            remedy="ask for a new one; deltasql token makes it",
        )
    return found


def must_be_own_page(request: Request, *, needs_origin: bool) -> None:
    """Raise `Refused` for a change that a browser sends from another site than ours."""
    if request.method in _SAFE:
        return
    site = request.headers.get("sec-fetch-site")
    origin = request.headers.get("origin")
    if site is not None:
        # No page can set it, and it is right where a proxy in front has changed the host.
        is_own = site == "same-origin"
    elif origin is not None:
        # A proxy in front may speak TLS where we don't, so the scheme says nothing.
        is_own = _after_scheme(origin) == request.headers.get("host")
    else:
        is_own = not needs_origin  # not a browser
    if not is_own:
        raise Refused(
            403,
            "the request comes from another site",
            cause="changes are accepted from the dashboard's own pages only",
            remedy="use the dashboard, or send a token in the header",
        )


def _after_scheme(origin: str) -> str | None:
    scheme, _, host = origin.partition("://")
    return host if scheme in ("http", "https") else None


def _host_of(header: str) -> str:
    found = _HOST.fullmatch(header)
    return "" if found is None else found.group(1)
