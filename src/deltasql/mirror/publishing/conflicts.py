"""Foreign commit files in the mirror, distinguished from interrupted uploads of ours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from deltasql.delta_log.names import LOG, commit_name
from deltasql.errors import MirrorError
from deltasql.mirror.publishing.commit_files import must_be_as_committed
from deltasql.objectstore import ObjectStore
from deltasql.store.interface import LogStore


@dataclass(frozen=True, slots=True)
class Conflict:
    """A commit file with other bytes; `problem` is set if SQL's own bytes are not as committed."""

    name: str
    problem: MirrorError | None = None


def conflicts(
    log: LogStore,
    objects: ObjectStore,
    table_id: int,
    digests: Mapping[int, bytes],
    versions: Iterable[int],
) -> list[Conflict]:
    """Those of the given versions, which differ from SQL, whose file is no prefix of our bytes."""
    found = []
    for version in sorted(versions):
        name = commit_name(version)
        for record in log.commits(table_id, after=version - 1, upto=version):
            try:
                must_be_as_committed(version, record.body, digests[version])
            except MirrorError as problem:
                found.append(Conflict(name, problem))
                continue
            if not record.body.startswith(objects.read(LOG + name)):
                found.append(Conflict(name))
    return found
