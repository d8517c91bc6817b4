"""A process of its own that writes one checkpoint and tells its time and peak memory."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from bench.peak import peak_mb


class _Absent:
    """pyarrow imports pandas wherever it is installed; neither side depends on it."""

    def find_spec(self, name: str, *_: object) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name)


def main() -> None:
    sys.meta_path.insert(0, _Absent())
    side, *arguments = sys.argv[1:]
    print(json.dumps(_ours(*arguments) if side == "ours" else _deltars(*arguments)))


def _ours(url: str, location: str, name: str, version: str) -> dict[str, float]:
    from bench import ours
    from deltasql.delta_log.names import LOG, checkpoint_name, commit_name
    from deltasql.mirror.checkpoints.checkpointing import CheckpointRun
    from deltasql.store.mirroring.interface import Work

    with ours.connect(url, location) as lake:
        table = lake.table(name)
        # All that a checkpoint asks of the mirror is that its own commit is there.
        table.objects.put_if_absent(LOG + commit_name(int(version)), b"{}")
        lease = lake.store.acquire_lease(table.table_id, "bench", 600.0, Work.CHECKPOINTS)
        assert lease is not None
        publish_run = CheckpointRun(lake.store, table.objects, lease, max_attempts=1)
        imported = peak_mb()
        started = time.perf_counter()
        summary = publish_run.write(int(version))
        seconds = time.perf_counter() - started
        lake.store.release_lease(lease)
        table.objects.delete([LOG + checkpoint_name(int(version))])
        table.objects.delete([LOG + "_last_checkpoint"])
    return {
        "files": summary.num_of_add_files,
        "seconds": seconds,
        "imported_mb": imported,
        "peak_mb": peak_mb(),
    }


def _deltars(path: str) -> dict[str, float]:
    from deltalake import DeltaTable

    imported = peak_mb()
    started = time.perf_counter()
    DeltaTable(path).create_checkpoint()
    seconds = time.perf_counter() - started
    peak = peak_mb()
    pointer = json.loads((Path(path) / "_delta_log/_last_checkpoint").read_text())
    # It counts actions: two of them are metaData and protocol.
    files = pointer.get("numOfAddFiles") or pointer["size"] - 2
    return {"files": files, "seconds": seconds, "imported_mb": imported, "peak_mb": peak}


if __name__ == "__main__":
    main()
