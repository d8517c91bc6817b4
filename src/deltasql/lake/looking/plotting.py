"""`table.plot()`: files, bytes and commits over time, if matplotlib is installed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final, cast

from deltasql.errors import ConfigError
from deltasql.log.timestamps import from_ms
from deltasql.store.browsing.sums import VersionSums

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from deltasql.lake.table import Table
    from deltasql.store.interface import VersionRecord

_BARS: Final = 60
# How often to read a table that is being written, until two readings agree.
_LOOKS: Final = 5
# The intervals to count commits by: the first that gives few enough bars is used.
_STRETCHES: Final = tuple(
    timedelta(seconds=seconds) for seconds in (0.1, 1, 10, 60, 600, 3600, 6 * 3600, 86400)
)


@dataclass(frozen=True, slots=True)
class Moment:
    """A table after one of its versions: its live files and their bytes."""

    version: int
    timestamp: datetime
    files: int
    size_bytes: int


def plot(table: Table, limit: int | None) -> Figure:
    """See `Table.plot`."""
    figure, concise = _new_figure()
    moments = moments_of(table, limit)
    files, sizes, commits = figure.subplots(3, 1, sharex=True)
    times = [moment.timestamp for moment in moments]
    _line(files, times, [moment.files for moment in moments], "files")
    _line(sizes, times, [moment.size_bytes for moment in moments], "bytes")
    sizes.yaxis.set_major_formatter(lambda value, _: _human(value))
    _bars(commits, times)
    files.set_title(table.name, loc="left")
    for axes in (files, commits):
        axes.yaxis.get_major_locator().set_params(integer=True)
    commits.xaxis.set_major_formatter(concise(commits.xaxis.get_major_locator()))
    return figure


def moments_of(table: Table, limit: int | None = None) -> list[Moment]:
    """The table after each of its versions, oldest first, counted back from the newest."""
    store = table._lake.store
    found: list[VersionRecord] = []
    sums = store.table_sums(table.table_id)
    for _ in range(_LOOKS):
        found = list(store.history(table.table_id, limit=limit))
        after = store.table_sums(table.table_id)
        if after == sums:
            break
        # Somebody committed in between.
        sums = after
    if not found:
        return []
    newest = found[0].version
    done = store.version_sums(table.table_id, first=found[-1].version, last=newest)
    files, size = sums.files, sums.size_bytes
    moments = []
    for record in found:
        at = from_ms(record.in_commit_timestamp)
        moments.append(Moment(record.version, at, files, size))
        change = done.get(record.version, VersionSums())
        files += change.files_removed - change.files_added
        size += change.bytes_removed - change.bytes_added
    return moments[::-1]


def _new_figure() -> tuple[Figure, Any]:
    """A figure, and the class that labels its times."""
    try:
        from matplotlib.dates import ConciseDateFormatter
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ConfigError(
            "a plot needs matplotlib",
            cause="it is not installed in this environment",
            remedy="pip install matplotlib",
        ) from error

    class TableFigure(Figure):
        """Shown by notebooks without `%matplotlib`, and kept in no global state."""

        def _repr_png_(self) -> bytes:
            picture = BytesIO()
            self.savefig(picture, format="png")
            return picture.getvalue()

    return TableFigure(figsize=(8, 6), layout="constrained"), ConciseDateFormatter


def _line(axes: Axes, times: list[datetime], values: Sequence[int], name: str) -> None:
    drawn = cast("list[Any]", times)
    # What a log claims may be more than numpy's integers hold.
    heights = [float(value) for value in values]
    axes.step(drawn, heights, where="post", color="#0f766e", linewidth=1.8)
    axes.fill_between(drawn, heights, step="post", color="#0f766e", alpha=0.15, linewidth=0)
    axes.set_ylabel(name)
    axes.set_ylim(bottom=0)
    axes.spines[["top", "right"]].set_visible(False)


def _bars(axes: Axes, times: list[datetime]) -> None:
    stretch = _stretch(times)
    counts = Counter(int(at.timestamp() // stretch.total_seconds()) for at in times)
    starts = [datetime.fromtimestamp(n * stretch.total_seconds(), UTC) for n in counts]
    axes.bar(
        cast("list[Any]", starts),
        list(counts.values()),
        width=cast("Any", stretch * 0.9),
        align="edge",
        color="#5b8def",
    )
    axes.set_ylabel("commits")
    axes.spines[["top", "right"]].set_visible(False)


def _stretch(times: list[datetime]) -> timedelta:
    span = times[-1] - times[0] if times else timedelta()
    fitting = (item for item in _STRETCHES if span / item <= _BARS)
    return next(fitting, timedelta(days=max(1, span.days // _BARS)))


def _human(value: float) -> str:
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if value < 1000 or unit == "TB":
            break
        value /= 1000
    return f"{value:.3g} {unit}"
