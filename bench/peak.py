"""A process's own peak memory; imports nothing that would add to it."""

from pathlib import Path


def peak_mb(pid: int | None = None) -> float:
    """The most memory that a process, by default this one, ever had, in MB of a million bytes.

    Not `ru_maxrss`: after an exec that one still holds the size of the process before it.
    """
    for line in Path(f"/proc/{pid or 'self'}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise RuntimeError("this system does not tell a process its peak memory")
