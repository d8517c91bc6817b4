"""A second reading of a log in a separate process: `python -m deltasql.adoption.second_reader`.

For a million files, a reader needs more memory than adoption itself may use. Takes JSON on stdin
(location, version, options), and prints how many files delta-rs finds and their digest.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from hashlib import blake2b
from typing import Final
from urllib.parse import unquote

_MODULUS: Final = 2**64


@dataclass(slots=True)
class FilesDigest:
    """How many files there are, and a digest of their paths and sizes in any order."""

    files: int = 0
    digest: int = 0

    def take(self, paths: Iterable[str], sizes: Iterable[int]) -> None:
        """Add some files."""
        digest = self.digest
        for path, size in zip(paths, sizes, strict=True):
            text = f"{plain_path(path)}\0{size}".encode()
            digest += int.from_bytes(blake2b(text, digest_size=8).digest())
            self.files += 1
        self.digest = digest % _MODULUS


def plain_path(path: str) -> str:
    """A path without what readers may write differently: escapes and a scheme."""
    return (unquote(path) if "%" in path else path).rpartition("://")[2].lstrip("/")


def ask_second_reader(
    location: str, version: int, options: Mapping[str, str]
) -> FilesDigest | None:
    """What delta-rs finds in a separate process; None if it can't tell."""
    question = {"location": location, "version": version, "options": dict(options)}
    done = subprocess.run(
        [sys.executable, "-m", "deltasql.adoption.second_reader"],
        input=json.dumps(question),
        capture_output=True,
        text=True,
        check=False,
    )
    return FilesDigest(**json.loads(done.stdout)) if done.returncode == 0 else None


def _main() -> None:
    import deltalake
    import pyarrow as pa

    asked = json.load(sys.stdin)
    table = deltalake.DeltaTable(
        asked["location"], version=asked["version"], storage_options=asked["options"]
    )
    found = pa.table(table.get_add_actions())
    digest = FilesDigest()
    for batch in found.select(["path", "size_bytes"]).to_batches(max_chunksize=10_000):
        digest.take(batch.column(0).to_pylist(), batch.column(1).to_pylist())
    sys.stdout.write(json.dumps(asdict(digest)))


if __name__ == "__main__":
    _main()
