"""The time of a student's process, counted so that a busy machine or a cold disk does not cost points."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, field

import psutil  # type: ignore[import-untyped]

PATIENCE = 4  # seconds of waiting that count as one
WANTS_TO_RUN = (psutil.STATUS_RUNNING, psutil.STATUS_DISK_SLEEP)


@dataclass
class Usage:
    """What a process and those that it started take. One that has ended and that nobody waited for has no memory."""

    memory: list[int] = field(default_factory=list)  # bytes of each that runs
    cpu: float = 0.0  # seconds, all together since they started
    wants_to_run: bool = False  # or waits for a disk

    @classmethod
    def of(cls, pid: int) -> Usage:
        usage = cls()
        with contextlib.suppress(psutil.Error):
            first = psutil.Process(pid)
            for process in (first, *first.children(recursive=True)):
                with contextlib.suppress(psutil.Error), process.oneshot():
                    usage._add(process)
        return usage

    def _add(self, process: psutil.Process) -> None:
        if size := process.memory_info().rss:
            self.memory.append(size)
        self.cpu += sum(process.cpu_times()[:4])  # with those of its own that have ended
        self.wants_to_run |= process.status() in WANTS_TO_RUN


class Clock:
    """Counts the seconds of one request, which begins now.

    Those in which the process sleeps count in full. While it wants to run or waits for a disk, the time that it had a
    processor counts, but at least one second in PATIENCE.
    """

    def __init__(self) -> None:
        self._began = self._looked = time.monotonic()
        self._counted = self._cpu = 0.0

    def look(self, usage: Usage) -> float:
        """Count up to now, and return the seconds."""
        now = time.monotonic()
        passed, had = now - self._looked, max(usage.cpu - self._cpu, 0.0)  # at the first look: had since its start
        self._counted += min(passed, had) if usage.wants_to_run else passed
        self._counted = max(self._counted, (now - self._began) / PATIENCE)
        self._looked, self._cpu = now, usage.cpu
        return self._counted

    @property
    def unseen(self) -> float:
        """Seconds since the last look."""
        return time.monotonic() - self._looked

    @property
    def counted(self) -> float:
        """The seconds counted, with those since the last look."""
        return self._counted + self.unseen
