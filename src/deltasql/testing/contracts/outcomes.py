"""What a log store says about commits whose answer was lost, and about the files of a commit."""

from __future__ import annotations

import uuid
from contextlib import suppress

import pytest

from deltasql.errors import StoreError
from deltasql.spec.actions import CdcFile
from deltasql.store.interface import NameTaken
from deltasql.store.rows import key_of
from deltasql.testing.proposals import (
    METADATA,
    PROTOCOL,
    OpenStore,
    add,
    commit,
    create,
    proposal,
    remove,
)


class OutcomeContract:
    """Answers for clients that lost one."""

    def test_a_creation_sent_again_is_answered_with_its_table(self, log_store: OpenStore) -> None:
        store = log_store()
        name = f"again.t{uuid.uuid4().hex}"
        sent = proposal(0, [METADATA, PROTOCOL, add("a")])
        assert store.find_created(sent.commit_id) is None
        made = store.create_table(name, f"memory:///{name}", sent)
        assert isinstance(made, int)
        assert store.find_created(sent.commit_id) == made
        again = store.create_table(name, f"memory:///{name}", sent, is_retry=True)
        assert again == made
        other = proposal(0, [METADATA, PROTOCOL])
        taken = store.create_table(name, f"memory:///{name}", other, is_retry=True)
        assert isinstance(taken, NameTaken)
        # Whatever happened to it in the meantime.
        store.rename_table(made, f"{name}.old")
        assert store.create_table(name, f"memory:///{name}", sent, is_retry=True) == made
        assert store.table(name) is None
        store.drop_table(made)
        assert store.create_table(name, f"memory:///{name}", sent, is_retry=True) == made
        assert store.table(name) is None
        assert store.find_created(sent.commit_id) == made
        free = store.create_table(name, f"memory:///{name}-free", other, is_retry=True)
        assert isinstance(free, int)
        assert free != made

    def test_files_that_a_version_has_are_known(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id, other = create(store), create(store)
        change = CdcFile(path="_change_data/c", size=1, partition_values={})
        commit(store, table_id, add("live"), add("gone"), add("marked", dv="v1"), change)
        commit(store, table_id, remove("gone"), add("é b%25"))
        with store.locked([table_id]) as log:
            asked = ["live", "gone", "marked", "_change_data/c", "é b%25", "new"]
            found = log.known_files(table_id, [*asked, *map(str, range(99))], after=0)
            vector = next(key for path, key in found if path == key_of("marked"))
            assert len(vector) == 16
            assert found == {
                (key_of("live"), b""),
                (key_of("gone"), b""),
                (key_of("marked"), vector),
                (key_of("_change_data/c"), b""),
                (key_of("é b%25"), b""),
            }
            # What was removed or changed before the files in question were written.
            later = log.known_files(table_id, ["live", "gone", "_change_data/c"], after=2)
            assert later == {(key_of("live"), b"")}
            assert log.known_files(table_id, ["new"], after=-1) == set()
            assert log.known_files(table_id, [], after=-1) == set()
            assert log.known_files(other, ["live"], after=-1) == set()

    @pytest.mark.parametrize("ending", ["COMMIT", "ROLLBACK"])
    def test_a_statement_that_ends_the_transaction_is_no_success(
        self, log_store: OpenStore, ending: str
    ) -> None:
        store = log_store()
        table_id = create(store)

        def leave() -> None:
            with store.locked([table_id]) as log:
                log.write(proposal(table_id, [add("a")]))
                log.execute(ending)
                log.execute("SELECT 1")

        with pytest.raises(StoreError) as caught:
            leave()
        # From this alone, it is unknown what was committed.
        assert not caught.value.is_refusal
        with suppress(StoreError):
            store.head(table_id)
        commit(store, table_id, add("b"))
