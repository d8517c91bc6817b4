"""Whether a commit may be made at all: checked before any lock is taken.

Checks go from the cheap and general to the particular; the first fault found is the one
that is raised.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from deltasql.errors import ValidationError
from deltasql.log.state import TableState
from deltasql.log.validation.files import FileChecks
from deltasql.log.validation.metadata import check_metadata, check_protocol
from deltasql.log.validation.values import check_json, check_text
from deltasql.spec.actions import (
    Action,
    AddFile,
    CdcFile,
    CommitInfo,
    DomainMetadata,
    Metadata,
    Protocol,
    RemoveFile,
    Txn,
    UnknownAction,
)
from deltasql.spec.codec import check_types
from deltasql.spec.properties import CLUSTERING_DOMAIN, DELTA_PREFIX, ROW_TRACKING_DOMAIN
from deltasql.spec.protocol import check_writable

# The system's own domains, and the feature that is required for each.
SYSTEM_DOMAINS = {ROW_TRACKING_DOMAIN: "rowTracking", CLUSTERING_DOMAIN: "clustering"}

_OF_CHECKPOINTS = frozenset({"checkpointMetadata", "sidecar"})
# Of what else may be said of a commit, what Delta Spark parses: anything else fails its readers.
_OF_INFO: Final[Mapping[str, tuple[type, str]]] = {
    **dict.fromkeys(("userId", "clusterId", "userMetadata"), (str, "a text")),
    **dict.fromkeys(("job", "notebook", "tags", "operationMetrics"), (Mapping, "an object")),
    "version": (int, "a whole number"),
}
_ONE_OF_A_KIND = {Metadata: "metaData", Protocol: "protocol", CommitInfo: "commitInfo"}
# Actions of which a commit may have any number.
_FILES = frozenset({AddFile, RemoveFile, CdcFile})


def validate_commit(
    actions: Sequence[Action], state: TableState | None, *, dropping: Collection[str] = ()
) -> None:
    """Raise `ValidationError` unless `actions` may become the version after `state`.

    Without a state the commit is version 0. `dropping` names the features that its protocol
    action leaves out on purpose.
    """
    found: dict[type, list[Any]] = {}
    for action in actions:
        check_types(action)
        found.setdefault(type(action), []).append(action)
    only_files = _FILES.issuperset(found)
    if not only_files:
        for kind, name in _ONE_OF_A_KIND.items():
            if len(found.get(kind, ())) > 1:
                raise _too_many(name)
    table = _table_after(found, state, dropping)
    _check_files(found, table, state)
    if not only_files:
        _check_others(found, table)


def _table_after(
    found: dict[type, list[Any]], state: TableState | None, dropping: Collection[str]
) -> TableState:
    """The state that the commit leaves, checked where it differs from the previous one."""
    metadata: Metadata | None = found.get(Metadata, [None])[0]
    protocol: Protocol | None = found.get(Protocol, [None])[0]
    if state is None:
        if metadata is None or protocol is None:
            raise ValidationError(
                "the first commit of a table lacks its protocol or its metaData",
                cause="version 0 has exactly one of each",
                remedy="add the missing action",
            )
        check_protocol(protocol, None)
        first = TableState(
            version=0,
            in_commit_timestamp=0,
            metadata=metadata,
            metadata_version=0,
            protocol=protocol,
            protocol_version=0,
        )
        check_metadata(first, None)
        return first
    check_writable(state.protocol)
    if metadata is None and protocol is None:
        return state
    after = replace(state, metadata=metadata or state.metadata, protocol=protocol or state.protocol)
    if protocol is not None:
        # The commit may drop what its own metadata no longer needs.
        before = replace(state, metadata=metadata) if dropping and metadata else state
        check_protocol(protocol, before, dropping=dropping)
    if metadata is not None:
        check_metadata(after, state)
    return after


def _check_files(found: dict[type, list[Any]], table: TableState, state: TableState | None) -> None:
    if _FILES.isdisjoint(found):
        return
    # A commit can't lift the restriction and break it at the same time.
    append_only = table.is_append_only or (state is not None and state.is_append_only)
    files = FileChecks(table, append_only=append_only)
    check_add, check_remove = files.add, files.remove
    for add in found.get(AddFile, ()):
        check_add(add)
    for remove in found.get(RemoveFile, ()):
        check_remove(remove)
    for cdc in found.get(CdcFile, ()):
        files.cdc(cdc)
    files.finish()


def _check_others(found: dict[type, list[Any]], table: TableState) -> None:
    _check_txns(found.get(Txn, ()))
    _check_domains(found.get(DomainMetadata, ()), table)
    for info in found.get(CommitInfo, ()):
        _check_commit_info(info)
    for unknown in found.get(UnknownAction, ()):
        _check_unknown(unknown)


def _check_txns(txns: Iterable[Txn]) -> None:
    seen: set[str] = set()
    for txn in txns:
        check_text(txn.app_id, "txn.appId")
        check_json(txn.extra, "txn")
        if not txn.app_id:
            raise ValidationError("txn.appId is empty", remedy="give the application an id")
        if txn.app_id in seen:
            raise _too_many(f"txn of the application {txn.app_id!r:.80}")
        seen.add(txn.app_id)


def _check_domains(domains: Sequence[DomainMetadata], table: TableState) -> None:
    if domains and "domainMetadata" not in table.writer_features:
        raise ValidationError(
            f"the table can't have the domain {domains[0].domain!r:.80}",
            cause="its protocol lacks domainMetadata, so other writers would lose the domain",
            remedy="add the feature to the protocol first",
            domain=domains[0].domain,
        )
    seen: set[str] = set()
    for action in domains:
        domain = action.domain
        check_text(domain, "domainMetadata.domain")
        check_text(action.configuration, "domainMetadata.configuration")
        check_json(action.extra, "domainMetadata")
        if not domain:
            raise ValidationError("domainMetadata.domain is empty", remedy="name the domain")
        if domain in seen:
            raise _too_many(f"domainMetadata of {domain!r:.80}")
        seen.add(domain)
        if domain.startswith(DELTA_PREFIX):
            _check_system_domain(domain, table)


def _check_system_domain(domain: str, table: TableState) -> None:
    feature = SYSTEM_DOMAINS.get(domain)
    if feature is None or feature not in table.writer_features:
        raise ValidationError(
            f"the domain {domain!r:.80} can't be changed",
            cause="delta.* domains belong to table features"
            + (f", and the protocol lacks {feature}" if feature else " deltasql does not know"),
            remedy="use a domain name of your own",
            domain=domain,
        )


def _check_commit_info(info: CommitInfo) -> None:
    for text in (
        info.operation,
        info.engine_info,
        info.isolation_level,
        info.txn_id,
        info.user_name,
    ):
        if text is not None:
            check_text(text, "commitInfo")
    check_json(dict(info.operation_parameters or {}), "commitInfo.operationParameters")
    check_json(info.extra, "commitInfo")
    for name, value in info.extra.items():
        kind, words = _OF_INFO.get(name, (object, ""))
        if value is not None and (not isinstance(value, kind) or isinstance(value, bool)):
            raise ValidationError(
                f"the commit's {name!r} can't be {value!r:.80}",
                cause=f"Delta's commitInfo has a field of that name, which is {words}: Spark could "
                "not read the table any more",
                remedy="choose another name",
            )


def _check_unknown(action: UnknownAction) -> None:
    check_text(action.name, "the name of an action")
    if action.name in _OF_CHECKPOINTS:
        raise ValidationError(
            f"a commit can't have the action {action.name}",
            cause="it belongs to checkpoints, and readers of commit files don't know it",
            remedy="leave it out: deltasql writes the checkpoints",
        )
    check_json(action.value, f"the action {action.name!r:.80}")


def _too_many(what: str) -> ValidationError:
    return ValidationError(
        f"the commit has more than one {what}",
        cause="the actions of a commit have no order, so it is undefined which one counts",
        remedy="pass one",
    )
