"""Bodies of requests: read once it is known who asks, and parsed in the thread that uses them.

FastAPI would read and parse them first, on the event loop: for anybody, and while all others wait.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, TypeVar

from fastapi import Depends, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError

from deltasql.serve.access import Operator, Reader
from deltasql.serve.problems import Refused

Model = TypeVar("Model", bound=BaseModel)

# For bodies of a few words.
_SMALL: Final = 4096


async def read_small(request: Request) -> bytes:
    """The body of a request whose body is short, or `Refused`."""
    found = bytearray()
    async for piece in request.stream():
        found += piece
        if len(found) > _SMALL:
            raise Refused(
                413, "the request is too large", cause=f"here a body has at most {_SMALL} bytes"
            )
    return bytes(found)


async def _of_operator(request: Request, visitor: Operator) -> bytes:
    del visitor
    _must_be_json(request)
    return await request.body()


async def _of_reader(request: Request, visitor: Reader) -> bytes:
    del visitor
    _must_be_json(request)
    return await read_small(request)


OperatorsBody = Annotated[bytes, Depends(_of_operator)]
ReadersBody = Annotated[bytes, Depends(_of_reader)]


def parsed(kind: type[Model], body: bytes) -> Model:
    """A body as the model says, or FastAPI's error for one that is malformed."""
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False, include_input=False)
        raise RequestValidationError(
            [{**item, "loc": ("body", *item["loc"])} for item in found]
        ) from None


def in_openapi(kind: type[BaseModel]) -> dict[str, Any]:
    """What the OpenAPI document says of such a body."""
    content = {"application/json": {"schema": kind.model_json_schema()}}
    return {"requestBody": {"required": True, "content": content}}


def _must_be_json(request: Request) -> None:
    kind = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    if kind != "application/json" and not kind.endswith("+json"):
        raise Refused(
            415,
            "the body is not JSON",
            cause=f"its Content-Type is {kind!r:.100}",
            remedy="send Content-Type: application/json",
        )
