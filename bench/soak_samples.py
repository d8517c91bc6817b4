"""What the soak watches: samples over time, whether they grow, and a chart of them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

_BARS = " ▁▂▃▄▅▆▇█"
_WIDTH = 60


@dataclass(frozen=True, slots=True)
class Bound:
    """How much a figure may grow in the second half of a run, beside its mean there."""

    share: float
    # Below this growth nothing is said: noise of small figures.
    least: float


@dataclass
class Samples:
    """Figures by name, each over the seconds since the start."""

    started: float = field(default_factory=time.monotonic)
    times: list[float] = field(default_factory=list)
    series: dict[str, list[float]] = field(default_factory=dict)

    def add(self, figures: Mapping[str, float]) -> None:
        self.times.append(time.monotonic() - self.started)
        for name, figure in figures.items():
            self.series.setdefault(name, []).append(figure)

    def growth(self, name: str) -> tuple[float, float]:
        """By how much the trend of the second half rises in it, and the mean of that half."""
        half = len(self.times) // 2
        times, found = np.array(self.times[half:]), np.array(self.series[name][half:])
        slope = np.polyfit(times, found, 1)[0]
        return float(slope * (times[-1] - times[0])), float(found.mean())

    def unbounded(self, bounds: Mapping[str, Bound]) -> list[str]:
        """What has grown beyond its bound, in words."""
        told = []
        for name, bound in bounds.items():
            rise, mean = self.growth(name)
            if rise > max(bound.least, bound.share * mean):
                told.append(f"{name} rose by {rise:,.1f} in the second half, mean {mean:,.1f}")
        return told

    def chart(self) -> str:
        """All series as lines of bars, each between its own least and most."""
        width = max(map(len, self.series))
        lines = [
            f"{name:{width}} {_line(found)} {min(found):>12,.1f} … {max(found):,.1f}"
            for name, found in self.series.items()
        ]
        return "\n".join([f"{len(self.times)} samples over {self.times[-1]:.0f} s", *lines])


def _line(found: Sequence[float]) -> str:
    parts = np.array_split(np.array(found), min(_WIDTH, len(found)))
    means = [float(part.mean()) for part in parts]
    low, high = min(means), max(means)
    scale = (len(_BARS) - 1) / (high - low) if high > low else 0.0
    return "".join(_BARS[round((mean - low) * scale)] for mean in means)
