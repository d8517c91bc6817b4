"""Failures as problem+json: what failed, why, and what to do, with a matching status."""

from __future__ import annotations

import logging
import uuid
from typing import Any, Final

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Match

from deltasql import errors
from deltasql.secrecy import redacted

logger = logging.getLogger("deltasql.serve")

# The first match counts: special ones come before general ones.
_STATUS: Final[tuple[tuple[type[errors.DeltaSqlError], int], ...]] = (
    (errors.TableNotFoundError, 404),
    (errors.VersionNotFoundError, 404),
    (errors.TableExistsError, 409),
    (errors.SchemaMismatchError, 422),
    (errors.TableError, 409),
    (errors.CommitStateUnknownError, 503),
    (errors.CommitError, 409),
    (errors.ValidationError, 422),
    (errors.LogFormatError, 422),
    (errors.StoreTimeoutError, 503),
    (errors.DamagedLogError, 500),
    (errors.StoreError, 503),
    (errors.MirrorError, 409),
)

_UNITY: Final = {
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "RESOURCE_DOES_NOT_EXIST",
    501: "NOT_IMPLEMENTED",
}
_METHODS: Final = ("DELETE", "GET", "HEAD", "PATCH", "POST", "PUT")
# Remedies are written for Python.
_SPOKEN: Final = ("see lake.tables()", "GET /api/v1/tables lists them")


class Refused(Exception):  # noqa: N818 - what was asked for is refused, nothing failed
    """A request that is refused, with the status that says why."""

    def __init__(self, status: int, problem: str, *, cause: str = "", remedy: str = "") -> None:
        super().__init__(problem)
        self.status = status
        self.problem = problem
        self.cause = cause
        self.remedy = remedy


def status_of(error: errors.DeltaSqlError) -> int:
    """The HTTP status of a failure."""
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 500)


def told(error: Exception) -> tuple[int, dict[str, Any]]:
    """Status and members of the problem for an error."""
    if isinstance(error, HTTPException) and isinstance(error.__cause__, Refused):
        # FastAPI takes any error while reading a body for a malformed body.
        error = error.__cause__
    if isinstance(error, errors.DeltaSqlError):
        status, kind = status_of(error), type(error).__name__
        problem, cause, remedy = error.problem, error.cause, error.remedy
    elif isinstance(error, Refused):
        status, kind = error.status, "Refused"
        problem, cause, remedy = error.problem, error.cause, error.remedy
    elif isinstance(error, RequestValidationError):
        first = error.errors()[0]
        place = ".".join(str(part) for part in first.get("loc", ()))
        status, kind = 422, "ValidationError"
        problem = f"the request is malformed at {place:.200}"
        cause, remedy = str(first.get("msg", "")), "see /api/openapi.json"
    elif isinstance(error, HTTPException):
        status, kind = error.status_code, "HTTPError"
        problem, cause = str(error.detail), ""
        remedy = "see /api/openapi.json for what there is"
    else:
        number = uuid.uuid4().hex[:12]
        logger.error("a request failed unexpectedly (%s)", number, exc_info=error)
        status, kind = 500, "InternalError"
        problem, cause = "the service failed unexpectedly", f"it is logged as {number}"
        remedy = "report what the log says"
    body = {
        "type": "about:blank",
        "title": kind,
        "status": status,
        "problem": redacted(problem),
        "cause": redacted(cause),
        "remedy": redacted(remedy.replace(*_SPOKEN)),
    }
    commit_id = getattr(error, "commit_id", None)
    return status, body | ({"commit_id": commit_id} if commit_id else {})


def answer(error: Exception, *, for_unity: bool = False) -> Response:
    """The response for an error, for clients of Unity Catalog also in its format."""
    status, body = told(error)
    if for_unity:
        code = _UNITY.get(status, "INTERNAL_ERROR" if status >= 500 else "INVALID_PARAMETER_VALUE")
        body |= {"error_code": code, "message": body["problem"], "details": []}
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
    if status == 503:
        headers["Retry-After"] = "1"
    if isinstance(error, HTTPException) and error.headers:
        headers |= dict(error.headers)
    return JSONResponse(
        body, status_code=status, headers=headers, media_type="application/problem+json"
    )


def _allowed(app: FastAPI, request: Request) -> list[str]:
    scopes = {method: {**request.scope, "method": method} for method in _METHODS}
    found = {
        method
        for method, scope in scopes.items()
        if any(route.matches(scope)[0] is Match.FULL for route in app.routes)
    }
    return sorted(found | ({"HEAD"} if "GET" in found else set()))


def install(app: FastAPI) -> None:
    """Make the app answer failures this way, and with pages for pages."""
    from deltasql.serve.pages.rendering import problem_page

    def handle(request: Request, error: Exception) -> Response:
        path = request.url.path
        if path.startswith(("/api/", "/metrics", "/healthz", "/readyz")):
            response = answer(error, for_unity="/unity-catalog/" in path)
        else:
            response = problem_page(request, *told(error))
        if response.status_code == 405:
            # The router only names the methods of the first route of that path, and there may be
            # more.
            response.headers["Allow"] = ", ".join(_allowed(app, request))
        return response

    def hung_up(_: Request, __: Exception) -> Response:
        # Nobody reads it, and nothing failed here.
        return Response(status_code=400)

    app.add_exception_handler(ClientDisconnect, hung_up)
    for kind in (errors.DeltaSqlError, Refused, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(kind, handle)
