"""The page that takes a token, and keeps it in a cookie that scripts can't read."""

from __future__ import annotations

from typing import Annotated, Final
from urllib.parse import parse_qs

from fastapi import APIRouter, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from deltasql.serve.access import COOKIE, Served, must_be_own_page
from deltasql.serve.bodies import read_small
from deltasql.serve.pages.rendering import page, see

router = APIRouter()

_WEEK: Final = 7 * 24 * 3600


@router.get("/login")
def ask(
    request: Request, service: Served, onward: Annotated[str, Query(alias="next")] = "/"
) -> Response:
    """The form."""
    if service.tokens is None:
        return see("/")
    return page(request, "login.html", None, onward=_own(onward), is_wrong=False)


@router.post("/login")
async def enter(request: Request, service: Served) -> Response:
    """Take the token, if it is one."""
    # Otherwise another site could sign a visitor in as somebody else, and see what they do.
    must_be_own_page(request, needs_origin=False)
    form = parse_qs((await read_small(request)).decode("utf-8", "replace"))
    token = form.get("token", [""])[0].strip()
    onward = _own(form.get("next", ["/"])[0])
    tokens = service.tokens
    if tokens is None:
        return see("/")
    if await run_in_threadpool(tokens.visitor, token) is None:
        return page(request, "login.html", None, 401, onward=onward, is_wrong=True)
    answer = see(onward)
    answer.set_cookie(
        COOKIE,
        token,
        max_age=_WEEK,
        httponly=True,
        samesite="strict",
        # With a proxy in front only the browser knows that it speaks TLS.
        secure=service.has_tls or request.headers.get("origin", "").startswith("https:"),
    )
    return answer


@router.post("/logout")
def leave(request: Request) -> Response:
    """Forget the token."""
    must_be_own_page(request, needs_origin=False)
    answer = see("/login")
    answer.delete_cookie(COOKIE)
    return answer


def _own(path: str) -> str:
    """A path of this site; anything else leads to the first page."""
    is_ours = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable()
    return path if is_ours else "/"
