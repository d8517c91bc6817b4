"""Commits over HTTP: actions in, a version out, once for each commit id."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Response
from pydantic import BaseModel, ConfigDict, Field

from deltasql.commit import CommitRequest
from deltasql.errors import CommitError, DatabaseError, LogFormatError, ValidationError
from deltasql.lake.table import Table
from deltasql.serve.access import Operator, Reader, Served
from deltasql.serve.api.tables import Name
from deltasql.serve.bodies import OperatorsBody, in_openapi, parsed
from deltasql.serve.problems import Refused
from deltasql.serve.service import Service
from deltasql.spec import codec
from deltasql.spec.actions import Action, AddFile, CdcFile, RemoveFile, Txn
from deltasql.spec.paths import is_absolute, object_key

router = APIRouter(prefix="/api/v1/tables", tags=["commits"])

_ID: Final = r"^[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}$"
_MOST_ACTIONS: Final = 10_000
_HEADS_AT_ONCE: Final = 16
# Delta's letter for a deletion vector with an absolute path.
_ABSOLUTE_VECTOR: Final = "p"
# Bytes of a path; no store takes longer keys.
_LONGEST_PATH: Final = 4096


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

    Files that are added must be there, below the table's folder, and have the size they say.
    """
    table = service.table(visitor, name)
    body = parsed(CommitBody, content)
    commit_id = body.commit_id or str(uuid.uuid4())
    known = service.lake.store.find_commit(table.table_id, commit_id)
    if known is None:
        request = _request(table, body, commit_id)
        if visitor.has_token:
            request.committer = visitor.name
        _must_be_there(table, request)
        try:
            return CommitAnswer(table.commit_request(request), commit_id, is_new=True)
        except (CommitError, DatabaseError):
            # The same commit may have arrived twice at once: then one of them is the version.
            known = service.lake.store.find_commit(table.table_id, commit_id)
            if known is None:
                raise
    _must_be_the_same(service, table, body, known.version)
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


def _must_be_the_same(service: Service, table: Table, body: CommitBody, version: int) -> None:
    """Raise `Refused` for a commit id that stands for other files or transactions.

    To be told that its files are committed would be the end of them.
    """
    asked = _contents(codec.parse_action(action) for action in body.actions)
    if body.app_id is not None:
        asked.add(("Txn", body.app_id, body.app_version))
    found = service.lake.store.commits(table.table_id, after=version - 1, upto=version)
    for record in found:  # one, or none once it has expired
        source = f"version {version} of {table.name}"
        if asked != _contents(codec.decode_commit(record.body, source=source)):
            raise Refused(
                409,
                f"the commit id {body.commit_id} stands for another commit",
                cause=f"version {version} has it, with other files or transactions",
                remedy="nothing was committed now: send these actions with an id of their own",
            )


def _contents(actions: Iterable[Action]) -> set[tuple[str, str, int | None]]:
    """What a commit is about: files by their paths, transactions by their numbers."""
    found: set[tuple[str, str, int | None]] = set()
    for item in actions:
        if isinstance(item, AddFile | RemoveFile | CdcFile):
            found.add((type(item).__name__, item.path, None))
        elif isinstance(item, Txn):
            found.add(("Txn", item.app_id, item.version))
    return found


def _must_be_there(table: Table, request: CommitRequest) -> None:
    """Raise `ValidationError` unless added files are in the table's folder, and complete.

    Elsewhere they may be another table's, which readers of this one could then read.
    """
    added = [item for item in request.actions if isinstance(item, AddFile | CdcFile)]
    for action in request.actions:
        if isinstance(action, AddFile | CdcFile | RemoveFile):
            _must_be_below(action)
    objects = table.objects

    def look(action: AddFile | CdcFile) -> str | None:
        found = objects.head(object_key(action.path))
        if found is None:
            return f"{action.path} is not there"
        return None if found.size == action.size else f"{action.path} has {found.size} bytes"

    with ThreadPoolExecutor(_HEADS_AT_ONCE) as pool:
        _raise_first(pool.map(look, added))


def _must_be_below(action: AddFile | CdcFile | RemoveFile) -> None:
    # The store is asked for them before validation has seen them.
    if len(action.path.encode("utf-8", "surrogatepass")) > _LONGEST_PATH or _is_broken(action.path):
        raise ValidationError(
            f"{action.path!r:.200} is not the path of a file",
            cause=f"it has more than {_LONGEST_PATH} bytes, or half a surrogate pair",
            remedy="give the path as it was uploaded",
            path=action.path,
        )
    vector = getattr(action, "deletion_vector", None)
    is_elsewhere = vector is not None and vector.storage_type == _ABSOLUTE_VECTOR
    adds_elsewhere = is_absolute(action.path) and not isinstance(action, RemoveFile)
    if adds_elsewhere or (is_elsewhere and not isinstance(action, RemoveFile)):
        raise ValidationError(
            f"{action.path!r:.200} can't be committed over HTTP",
            cause="it, or its deletion vector, is named by an absolute address",
            remedy="put the file below the table's folder, and give its relative path",
            path=action.path,
        )
    if isinstance(action, RemoveFile):
        return
    try:
        object_key(action.path)
    except LogFormatError as error:
        # It is no log's path yet.
        raise ValidationError(
            f"{action.path!r:.200} is not the path of a file",
            cause=error.cause,
            remedy="give it relative to the table's folder, percent-encoded",
            path=action.path,
        ) from None


def _is_broken(path: str) -> bool:
    return any("\ud800" <= letter <= "\udfff" for letter in path)


def _raise_first(found: Iterable[str | None]) -> None:
    for problem in found:
        if problem is not None:
            raise ValidationError(
                "nothing was committed: a file is not what its action says",
                cause=problem,
                remedy="upload the file first, and give its size",
            )
