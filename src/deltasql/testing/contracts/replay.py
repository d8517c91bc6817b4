"""Time travel: every version of a table equals a plain replay of its commits."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from deltasql.spec.actions import Action, AddFile
from deltasql.store.interface import LogStore
from deltasql.testing.proposals import OpenStore, add, commit, create, remove

# What may happen to a path in a commit.
_STEPS = ("add", "restate", "remove", "replace", "return", "remove_unknown")
_PATHS = "abcd"
_VECTORS = ("", "v1", "v2")

Key = tuple[str, str]
_COMMITS = st.lists(
    st.dictionaries(
        st.sampled_from(_PATHS),
        st.tuples(st.sampled_from(_STEPS), st.sampled_from(_VECTORS)),
        max_size=len(_PATHS),
    ),
    min_size=1,
    max_size=8,
)


class ReplayContract:
    """Files at every version, compared with a replay in plain Python."""

    def test_every_version_equals_a_replay(self, log_store: OpenStore) -> None:
        store = log_store()

        @settings(max_examples=25)
        @given(commits=_COMMITS)
        def compare(commits: list[dict[str, tuple[str, str]]]) -> None:
            _compare(store, commits)

        compare()


def _compare(store: LogStore, commits: list[dict[str, tuple[str, str]]]) -> None:
    table_id = create(store)
    live: dict[Key, tuple[AddFile, int]] = {}
    expected = [set(_seen(live))]
    for version, steps in enumerate(commits, start=1):
        actions: list[Action] = []
        for path, (step, vector) in steps.items():
            actions.extend(_act(live, path, vector, step=step, version=version))
        commit(store, table_id, *actions)
        expected.append(set(_seen(live)))
    for version, files in enumerate(expected):
        found = store.files(table_id, version).read_all().to_pylist()
        assert len(found) == len(files)
        assert {
            (file["path"], file["deletion_vector"] or "", file["size"], file["version"])
            for file in found
        } == files


def _act(
    live: dict[Key, tuple[AddFile, int]], path: str, vector: str, *, step: str, version: int
) -> list[Action]:
    """Actions for a path that are valid now; updates the replay."""
    old = next((key for key in live if key[0] == path), None)
    if step == "remove_unknown" and old != (path, vector):
        return [remove(path, vector)]
    made = add(path, vector, size=version)
    if old is None:
        if step == "remove":
            return [remove(path, vector)]
        live[path, vector] = (made, version)
        return [made]
    if step in ("add", "restate"):
        again = add(path, old[1], size=version)
        live[old] = (again, version)
        return [again]
    del live[old]
    if step in ("remove", "remove_unknown"):
        return [remove(*old)]
    if step == "return":
        made = add(path, old[1], size=version)
        live[old] = (made, version)
    else:
        live[path, vector] = (made, version)
    return [remove(*old), made]


def _seen(live: dict[Key, tuple[AddFile, int]]) -> list[tuple[str, str, int, int]]:
    return [(path, _vector_json(vector), made.size, version)
            for (path, vector), (made, version) in live.items()]  # fmt: skip


def _vector_json(name: str) -> str:
    if not name:
        return ""
    return (
        f'{{"cardinality":2,"offset":1,"pathOrInlineDv":"{name}","sizeInBytes":36,'
        '"storageType":"u"}'
    )
