"""Commits over HTTP: actions in, a version out, once for each commit id."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Response
from pydantic import BaseModel, ConfigDict, Field

from deltasql.commit import CommitRequest
from deltasql.errors import CommitError, DatabaseError
from deltasql.lake.table import Table
from deltasql.serve.access import Operator, Reader, Served
from deltasql.serve.api.commit_contents import Asked, must_be_the_same
from deltasql.serve.api.commit_files import must_be_in_the_table, must_be_there
from deltasql.serve.api.tables import Name
from deltasql.serve.bodies import OperatorsBody, in_openapi, parsed
from deltasql.serve.problems import Refused
from deltasql.serve.tokens import Visitor
from deltasql.spec.actions import CommitInfo

router = APIRouter(prefix="/api/v1/tables", tags=["commits"])

_ID: Final = r"^[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}$"
_MOST_ACTIONS: Final = 10_000


class CommitBody(BaseModel):
    """A commit: Delta's actions as JSON objects, and what they rest on."""

    model_config = ConfigDict(extra="forbid")

    actions: list[dict[str, Any]] = Field(min_length=1, max_length=_MOST_ACTIONS)
    commit_id: str | None = Field(default=None, pattern=_ID)
    operation: str = Field(default="WRITE", max_length=200)
    operation_params: dict[str, Any] = Field(default_factory=dict)
    expected_version: int | None = Field(default=None, ge=1, lt=2**63)
    read_version: int | None = Field(default=None, ge=0, lt=2**63)
    reads: str | None = Field(default=None, max_length=8192)
    app_id: str | None = Field(default=None, max_length=1000)
    app_version: int | None = Field(default=None, ge=0, lt=2**63)


@dataclass(frozen=True, slots=True)
class CommitAnswer:
    """The version that a commit became; `is_new` is false if it had become one before."""

    version: int
    commit_id: str
    is_new: bool


@router.post("/{name}/commits", status_code=201, openapi_extra=in_openapi(CommitBody))
def commit(
    service: Served, visitor: Operator, name: Name, content: OperatorsBody, response: Response
) -> CommitAnswer:
    """Commit actions. Sent again with the same commit id, the answer is the same version.

    Files that are added must be there, below the table's folder, and have the size they say. A
    commit that removes files needs `read_version`, or `expected_version`: it is refused if they are
    not in the table as of that version, and conflicts if they were changed since.
    """
    table = service.table(visitor, name)
    body = parsed(CommitBody, content)
    commit_id = body.commit_id or str(uuid.uuid4())
    asked = Asked(commit_id, body.actions, (body.app_id, body.app_version))
    known = service.lake.store.find_commit(table.table_id, commit_id)
    if known is None:
        request = _request(table, body, commit_id)
        if visitor.has_token:
            _sign(request, visitor)
        must_be_there(table, request)
        must_be_in_the_table(service.lake.store, request)
        try:
            done = table.send(request)
        except (CommitError, DatabaseError):
            # The same commit may have arrived twice at once: then one of them is the version.
            known = service.lake.store.find_commit(table.table_id, commit_id)
            if known is None:
                raise
        else:
            table.mirror_commit(request, done)
            if done.is_new:
                # Where two with one id arrived at once, the version may be the other's. One that
                # was brought past another commit has other files than were sent, and is ours.
                # If this fails, who has an id may ask again; who has none must hear the version.
                if body.commit_id is not None and not request.rebased_files:
                    must_be_the_same(service.lake.store, table, asked, done.version)
                return CommitAnswer(done.version, commit_id, is_new=True)
            # The version has the transaction, from a commit with another id.
            response.status_code = 200
            return CommitAnswer(done.version, commit_id, is_new=False)
    must_be_the_same(service.lake.store, table, asked, known.version)
    response.status_code = 200
    return CommitAnswer(known.version, commit_id, is_new=False)


@router.get("/{name}/commits/{commit_id}")
def find(
    service: Served,
    visitor: Reader,
    name: Name,
    commit_id: Annotated[str, Path(pattern=_ID)],
) -> CommitAnswer:
    """The version that a commit id became: for who lost the answer."""
    table = service.table(visitor, name)
    known = service.lake.store.find_commit(table.table_id, commit_id)
    if known is None:
        raise Refused(
            404,
            f"{name} has no commit {commit_id}",
            cause="it was never committed, or is still on its way",
            remedy="send the commit again with the same id",
        )
    return CommitAnswer(known.version, commit_id, is_new=False)


def _request(table: Table, body: CommitBody, commit_id: str) -> CommitRequest:
    request = table.request_for(
        body.actions,
        operation=body.operation,
        operation_params=body.operation_params,
        expected_head=None if body.expected_version is None else body.expected_version - 1,
        read_version=body.read_version,
        reads=table.parse_reads(body.reads),
        txn=(body.app_id, body.app_version),
    )
    request.commit_id = commit_id
    return request


def _sign(request: CommitRequest, visitor: Visitor) -> None:
    """Make the owner of the token the committer, whoever the request says it is."""
    request.committer = visitor.name
    request.actions = [
        replace(item, user_name=None, extra={k: v for k, v in item.extra.items() if k != "userId"})
        if isinstance(item, CommitInfo)
        else item
        for item in request.actions
    ]
