"""Plots as points and bars, which the templates draw as SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from deltasql.delta_log.checksum import added_by
from deltasql.spec import codec
from deltasql.store.browsing.interface import Growth, ListedPartition, TableListing

WIDTH: Final = 600
HEIGHT: Final = 120


@dataclass(frozen=True, slots=True)
class Change:
    """What a version did to the live files; None if its body is too large to read."""

    added: int | None
    added_bytes: int | None
    gone: int
    gone_bytes: int


@dataclass(frozen=True, slots=True)
class Spot:
    """Where a version is on a line, and its value."""

    x: float
    width: float
    version: int
    value: int


@dataclass(frozen=True, slots=True)
class Line:
    """A line over versions: SVG paths of it and of the area below, and labels for its ends."""

    line: str
    area: str
    spots: list[Spot]
    first_version: int
    last_version: int
    newest: int
    highest: int
    lowest: int


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar, and what it stands for."""

    x: float
    y: float
    width: float
    height: float
    start: int
    count: int


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition by the names that people know, with its live files."""

    values: dict[str, str | None]
    where: str
    files: int
    size_bytes: int


def partition(item: ListedPartition, names: Mapping[str, str], columns: Sequence[str]) -> Partition:
    """A partition, its values in the order of the columns, and the condition that finds its
    files.
    """
    found = {
        names.get(key, key): value
        for key, value in codec.load_partition_values(item.partition_values).items()
    }
    values = {name: found[name] for name in columns if name in found}
    where = " AND ".join(
        f"{_quoted(name, '`')} IS NULL"
        if value is None
        else f"{_quoted(name, '`')} = {_literal(value)}"
        for name, value in values.items()
    )
    return Partition(values, where, item.files, item.size_bytes)


def _quoted(text: str, mark: str) -> str:
    return f"{mark}{text.replace(mark, mark * 2)}{mark}"


def _literal(value: str) -> str:
    return _quoted(value, "'")


def changes(found: Sequence[Growth]) -> dict[int, Change]:
    """What each version did, by version."""
    told = {}
    for item in found:
        added = None
        if item.body is not None:
            added = added_by(item.body, source=f"version {item.version}")
        told[item.version] = Change(
            None if added is None else added.files,
            None if added is None else added.size_bytes,
            item.gone_files,
            item.gone_bytes,
        )
    return told


def totals(listing: TableListing, done: Mapping[int, Change]) -> dict[int, tuple[int, int]]:
    """Live files and bytes by version, as far as they follow from those of the mirrored one."""
    start = listing.mirrored_version
    if start is None or listing.files is None or listing.size_bytes is None:
        return {}
    found = {start: (listing.files, listing.size_bytes)}
    version = start
    while (step := _step(done.get(version))) is not None and version - 1 in done:
        files, size = found[version]
        version -= 1
        found[version] = files - step[0], size - step[1]
    version = start
    while (step := _step(done.get(version + 1))) is not None:
        files, size = found[version]
        version += 1
        found[version] = files + step[0], size + step[1]
    return dict(sorted(found.items()))


def _step(change: Change | None) -> tuple[int, int] | None:
    if change is None or change.added is None or change.added_bytes is None:
        return None
    return change.added - change.gone, change.added_bytes - change.gone_bytes


def line(values: Mapping[int, int]) -> Line | None:
    """A line through values by version; None for fewer than two."""
    if len(values) < 2:
        return None
    versions = list(values)
    highest, lowest = max(values.values()), min(values.values())
    span = max(1, versions[-1] - versions[0])
    top = max(1, highest)
    points = [
        (
            (version - versions[0]) / span * WIDTH,
            HEIGHT - 4 - value / top * (HEIGHT - 12),
        )
        for version, value in values.items()
    ]
    path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    return Line(
        line=path,
        area=f"{path}L{WIDTH} {HEIGHT}L0 {HEIGHT}Z",
        spots=[
            Spot(round(x - WIDTH / span / 2, 1), round(WIDTH / span, 1), version, value)
            for (x, _), (version, value) in zip(points, values.items(), strict=True)
        ],
        first_version=versions[0],
        last_version=versions[-1],
        newest=values[versions[-1]],
        highest=highest,
        lowest=lowest,
    )


def bars(counts: Mapping[int, int], *, start: int, bucket: int, number: int) -> list[Bar]:
    """A bar for each interval from `start` on, including empty ones."""
    highest = max(counts.values(), default=1)
    width = WIDTH / number
    found = []
    for position in range(number):
        begin = start + position * bucket
        height = counts.get(begin, 0) / highest * (HEIGHT - 8)
        # A single event beside thousands must still be visible.
        height = max(height, 2.0) if counts.get(begin) else 0.0
        found.append(
            Bar(
                x=round(position * width + width * 0.12, 2),
                y=round(HEIGHT - height, 2),
                width=round(width * 0.76, 2),
                height=round(height, 2),
                start=begin,
                count=counts.get(begin, 0),
            )
        )
    return found
