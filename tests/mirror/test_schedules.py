"""Random schedules (`schedules.py`): whatever happens, the mirror becomes equal to SQL.

The machine must also find planted bugs, else it proves nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import Phase

from deltasql.errors import DeltaSqlError, MirrorConflictError
from deltasql.mirror.checkpoints import checkpointing
from deltasql.mirror.checkpoints.checkpointing import CheckpointRun
from deltasql.mirror.publishing import commit_files as publishing
from deltasql.mirror.publishing import publish_run
from deltasql.mirror.publishing.commit_files import Published
from deltasql.objectstore import PutChain
from deltasql.testing.faulty_store import FaultyStore
from tests.mirror.model_log import TABLE_ID, ModelLog
from tests.mirror.schedules import run_schedules, summary_of

FULL = 10_000


@pytest.mark.stress
@pytest.mark.timeout(1800)
def test_every_schedule_ends_with_the_mirror_equal_to_sql(stress_factor: float) -> None:
    # Planted bugs are found after a few dozen, see below.
    run_schedules(max(50, round(FULL * stress_factor * min(1, 2.5 * stress_factor))))


# --- the machine finds bugs -----------------------------------------------------------------


def _believes_what_exists(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(publishing, "must_be_ours", lambda *_: None)


def _swallows_errors(patch: pytest.MonkeyPatch) -> None:
    real = publish_run.publish_commits

    def publish(objects: Any, versions: Any, checksums: Any) -> Published:
        published = real(objects, versions, checksums)
        if isinstance(published.failure, MirrorConflictError):
            return published
        return Published(len(versions))

    patch.setattr(publish_run, "publish_commits", publish)


def _overwrites(patch: pytest.MonkeyPatch) -> None:
    def put(self: FaultyStore, path: str, data: Any) -> bool:
        self._begin("put_if_absent", path)
        self.inner.put(path, data)
        return True

    patch.setattr(FaultyStore, "put_if_absent", put)


def _goes_backwards(patch: pytest.MonkeyPatch) -> None:
    real = publish_run.publish_commits

    def publish(objects: Any, versions: Any, checksums: Any) -> Published:
        return real(objects, versions[::-1], checksums[::-1])

    patch.setattr(publish_run, "publish_commits", publish)


def _ignores_the_fence(patch: pytest.MonkeyPatch) -> None:
    """A holder that slept records what it meant to do, whoever holds the lease now."""
    patch.setattr(ModelLog, "_holds", lambda *_: True)
    real = publish_run.publish_commits

    def publish(objects: Any, versions: Any, checksums: Any) -> Published:
        published = real(objects, versions, checksums)
        if published.failure is None or isinstance(published.failure, MirrorConflictError):
            return published
        return Published(len(versions))

    patch.setattr(publish_run, "publish_commits", publish)


def _checksum_first(patch: pytest.MonkeyPatch) -> None:
    def put(self: FaultyStore, items: Any, beside: Any = ()) -> PutChain:
        for place, item in enumerate(items):
            if beside:
                self.put_if_absent(*beside[place])
            if not self.put_if_absent(*item):
                return PutChain(place, exists=True)
        return PutChain(len(items))

    patch.setattr(FaultyStore, "put_many_if_absent", put)


def _points_back(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(checkpointing, "is_newer", lambda *_: True)


def _points_first(patch: pytest.MonkeyPatch) -> None:
    """The pointer is written while its checkpoint is on its way."""
    real = CheckpointRun.write

    def write(self: CheckpointRun, version: int) -> Any:
        files: Any = self._log.files(TABLE_ID, version)
        self.point_at(summary_of(version, files))
        return real(self, version)

    patch.setattr(CheckpointRun, "write", write)


def _forgets_failed_checkpoints(patch: pytest.MonkeyPatch) -> None:
    real = CheckpointRun._write_recorded

    def write(self: CheckpointRun, due: Any) -> Any:
        try:
            return real(self, due)
        except DeltaSqlError:
            files: Any = self._log.files(TABLE_ID, due.version)
            return summary_of(due.version, files)

    patch.setattr(CheckpointRun, "_write_recorded", write)


@pytest.fixture
def planted(request: pytest.FixtureRequest) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        request.param(patch)
        yield


@pytest.mark.parametrize(
    "planted",
    [
        _believes_what_exists,
        _swallows_errors,
        _overwrites,
        _goes_backwards,
        _ignores_the_fence,
        _checksum_first,
        _points_back,
        _points_first,
        _forgets_failed_checkpoints,
    ],
    indirect=True,
)
@pytest.mark.timeout(600)
def test_it_finds_a_planted_bug(planted: None) -> None:
    # It ends with the first find, mostly after a few dozen schedules; luck must not decide.
    with pytest.raises((AssertionError, IndexError, DeltaSqlError, ExceptionGroup)):
        run_schedules(3_000, phases=[Phase.generate])
