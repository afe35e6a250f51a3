"""Several workers at a time, each with a limit: one that ends badly costs its own submission."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import signal
import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from autograder.classroom.worker import MAX_REPLY, Row, Task, work

SUBMISSION_SECONDS = 180.0
"""For a whole submission. What a student's code may take is in `autograder.running.trusted`."""


@dataclass
class _Job:
    task: Task
    process: BaseProcess
    replies: Connection
    until: float
    reply: bytes | None = None

    def read(self) -> None:
        """What has come, and no more of it than a row takes."""
        try:
            if self.reply is None and self.replies.poll():
                self.reply = self.replies.recv_bytes(MAX_REPLY)
        except (EOFError, OSError):
            self.reply = b""


@dataclass
class Workers:
    """Runs tasks. `running` tells whose submissions are being graded at the moment."""

    jobs: int
    _running: dict[Any, _Job] = field(default_factory=dict)

    @property
    def running(self) -> list[str]:
        return sorted(job.task.student for job in self._running.values())

    def run(self, tasks: Iterable[Task]) -> Iterator[tuple[Task, Row]]:
        """The rows as they come. Leaving early ends the workers."""
        waiting = deque(tasks)
        try:
            while waiting or self._running:
                while waiting and len(self._running) < self.jobs:
                    job = _started(waiting.popleft())
                    self._running[job.process.sentinel] = job
                yield from self._done()
        finally:
            for job in self._running.values():
                _end(job)

    def _done(self) -> Iterator[tuple[Task, Row]]:
        soonest = min(job.until for job in self._running.values())
        replies = [job.replies for job in self._running.values() if job.reply is None]
        multiprocessing.connection.wait([*self._running, *replies], max(0.0, soonest - time.monotonic()))
        for sentinel, job in list(self._running.items()):
            job.read()
            if job.process.is_alive() and time.monotonic() < job.until:
                continue
            late = job.process.is_alive()
            del self._running[sentinel]
            _end(job)
            yield job.task, _row(job, late)


def _started(task: Task) -> _Job:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["autograder.classroom.worker"])
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # Ctrl-C is for this process, not its server
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    replies, connection = context.Pipe(duplex=False)
    process = context.Process(target=work, args=(connection, task))
    process.start()
    connection.close()
    return _Job(task, process, replies, time.monotonic() + SUBMISSION_SECONDS)


def _row(job: _Job, late: bool) -> Row:
    if job.process.exitcode == 0 and job.reply:
        return Row.of_bytes(job.reply)
    told = f"took longer than {SUBMISSION_SECONDS:g} s" if late else f"ended with exit code {job.process.exitcode}"
    remedy = "the next `grade` tries again; if it fails again, look at what was handed in"
    return Row(job.task.student, reason=f"the process that takes it in {told}: {remedy}")


def _end(job: _Job) -> None:
    job.process.kill()
    job.process.join()
    job.read()
    job.replies.close()
