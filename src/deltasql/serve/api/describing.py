"""The OpenAPI document: FastAPI's description of the routes, and the failures it can't know."""

from __future__ import annotations

from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

_PROBLEM: Final[dict[str, Any]] = {
    "type": "object",
    "title": "Problem",
    "description": "What failed, why, and what to do.",
    "required": ["type", "title", "status", "problem", "cause", "remedy"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string", "description": "The kind of failure"},
        "status": {"type": "integer"},
        "problem": {"type": "string"},
        "cause": {"type": "string"},
        "remedy": {"type": "string"},
        "commit_id": {"type": "string", "description": "Of a commit whose answer was lost"},
    },
}
_FAILURES: Final = {
    "400": "The request can't be read",
    "401": "A token is needed, or is not accepted",
    "403": "The token does not allow it, or the request comes from another site",
    "404": "It is not there, or not for this token",
    "405": "The method is not allowed",
    "409": "A conflict, or the table's state forbids it",
    "413": "The request is too large",
    "414": "The query is too long",
    "415": "The body is not JSON",
    "421": "Without tokens only requests to localhost are answered",
    "422": "The request is malformed",
    "429": "Too many jobs are waiting",
    "503": "The database does not answer: try again",
}
# FastAPI's own schemas for malformed requests, which are never the answer.
_UNUSED: Final = ("HTTPValidationError", "ValidationError")


def described(app: FastAPI) -> dict[str, Any]:
    """The document; created once, at the first request for it."""
    if app.openapi_schema is None:
        app.openapi_schema = _document(app)
    return app.openapi_schema


def _document(app: FastAPI) -> dict[str, Any]:
    found = get_openapi(
        title=app.title, version=app.version, summary=app.summary, routes=app.routes
    )
    components = found.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    for name in _UNUSED:
        schemas.pop(name, None)
    schemas["Problem"] = _PROBLEM
    components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    # On a loopback address there may be no tokens.
    found["security"] = [{"token": []}, {}]
    content = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    for operations in found["paths"].values():
        for operation in operations.values():
            answers = operation["responses"]
            for status, meaning in _FAILURES.items():
                answer = {"description": meaning, "content": content}
                # Readiness has an answer of its own.
                if status not in answers or status == "422":
                    answers[status] = answer
    return found
