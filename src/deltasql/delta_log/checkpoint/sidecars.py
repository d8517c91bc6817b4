"""Which sidecars a V2 checkpoint has: each holds the live files of a stretch of versions.

What was added by old versions can only become less. A sidecar of an earlier checkpoint whose files
are all still live says what it would say today, and is named again instead of written again. Its
action's tags tell which versions added its files, how many there are, and a sum of their keys.

New files make a stretch of their own, together with the stretches before them that are not much
larger: so there are few sidecars, and each file is written again only a few times.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import pairwise
from typing import Any, Final

import pyarrow as pa

from deltasql.delta_log.checkpoint.schema import SIDECAR, CheckpointShape
from deltasql.delta_log.names import SIDECARS

# How many files a sidecar holds; more of one stretch go to another.
SIDECAR_ACTIONS: Final = 500_000
# How much larger than the new files a stretch is that is left alone.
_LARGER: Final = 2
_MODULUS: Final = 1 << 128
_FIRST, _LAST, _FILES, _KEYS, _SHAPE = (
    f"deltasql.{name}" for name in ("firstVersion", "lastVersion", "files", "keys", "shape")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sidecar:
    """A sidecar as a top file names it; `name` is relative to `_delta_log`."""

    name: str
    size_in_bytes: int
    modification_time: int
    tags: Mapping[str, str] | None = None
    adds: int = 0
    removes: int = 0


@dataclass(slots=True)
class Stretch:
    """The live files that some versions added: how many, the sum of their keys, and the sidecars
    that have them already.
    """

    first: int
    last: int
    files: int = 0
    keys: int = 0
    kept: tuple[Sidecar, ...] = field(default=())

    def add(self, key: bytes) -> None:
        """Count a file."""
        self.files += 1
        self.keys = (self.keys + int.from_bytes(key)) % _MODULUS

    def tags(self, shape: CheckpointShape) -> dict[str, str]:
        """What the actions of its sidecars say."""
        return {
            _FIRST: str(self.first),
            _LAST: str(self.last),
            _FILES: str(self.files),
            _KEYS: f"{self.keys:032x}",
            _SHAPE: shape_digest(shape),
        }


def shape_digest(shape: CheckpointShape) -> str:
    """Tells whether two sidecars have the same columns."""
    return blake2b(f"{shape.stats}\0{shape.sidecar()}".encode(), digest_size=8).hexdigest()


def plan_stretches(
    known: Iterable[Sidecar],
    files: Iterable[tuple[int, bytes]],
    version: int,
    shape: CheckpointShape,
    *,
    most: int = SIDECAR_ACTIONS,
) -> list[Stretch]:
    """The stretches of a checkpoint, with what can be kept of an earlier one's sidecars.

    `files` are the live ones: the version that added each, and its key.
    """
    before = _known_stretches(known, shape)
    # Without gaps, whatever was there before.
    starts = [0, *(item.last + 1 for item in before)]
    ends = [*(item.last for item in before), version]
    found = [Stretch(first, last) for first, last in zip(starts, ends, strict=True)]
    for added, key in files:
        found[_place(starts, added)].add(key)
    for now, then in zip(found[:-1], before, strict=True):
        if (now.files, now.keys) == (then.files, then.keys):
            now.kept = then.kept
    return [item for item in _merged(found, most) if item.files]


def _place(starts: Sequence[int], version: int) -> int:
    # There are few, and most files are asked for in the last ones.
    for place in range(len(starts) - 1, 0, -1):
        if version >= starts[place]:
            return place
    return 0


def _merged(stretches: list[Stretch], most: int) -> list[Stretch]:
    """The last one, which is new, takes in those before it that are not much larger."""
    *rest, last = stretches
    while rest and last.files and rest[-1].files <= min(_LARGER * last.files, most - last.files):
        before = rest.pop()
        last = Stretch(
            before.first,
            last.last,
            before.files + last.files,
            (before.keys + last.keys) % _MODULUS,
        )
    return [*rest, last]


def _known_stretches(known: Iterable[Sidecar], shape: CheckpointShape) -> list[Stretch]:
    """The stretches of an earlier checkpoint; none of what is not ours or has other columns."""
    found: dict[tuple[int, int], Stretch] = {}
    for item in known:
        tags = item.tags or {}
        if tags.get(_SHAPE) != shape_digest(shape):
            continue
        try:
            first, last, files = (int(tags[name]) for name in (_FIRST, _LAST, _FILES))
            keys = int(tags[_KEYS], 16)
        except (KeyError, ValueError):
            continue
        stretch = found.setdefault((first, last), Stretch(first, last, files, keys))
        stretch.kept = (*stretch.kept, item)
    ordered = sorted(found.values(), key=lambda item: item.first)
    follows = all(one.last < two.first for one, two in pairwise(ordered))
    return ordered if follows else []


# --- the actions of the top file ------------------------------------------------------


def actions_of(sidecars: Iterable[Sidecar]) -> pa.Array:
    """The sidecar actions of a top file."""
    return pa.array(
        [
            {
                "path": item.name.removeprefix(f"{SIDECARS}/"),
                "sizeInBytes": item.size_in_bytes,
                "modificationTime": item.modification_time,
                "tags": None if item.tags is None else list(item.tags.items()),
            }
            for item in sidecars
        ],
        SIDECAR,
    )


def named_sidecars(actions: Iterable[Mapping[str, Any]]) -> Iterator[Sidecar]:
    """The sidecars that actions with all of their fields name."""
    for fields in actions:
        path, size, modified = (
            fields.get(name) for name in ("path", "sizeInBytes", "modificationTime")
        )
        if isinstance(path, str) and isinstance(size, int) and isinstance(modified, int):
            yield Sidecar(
                name=f"{SIDECARS}/{path}",
                size_in_bytes=size,
                modification_time=modified,
                tags=dict(fields.get("tags") or {}),
            )
