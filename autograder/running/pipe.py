"""The student's process as the tests have it: JSON lines over two pipes, a time for each, and an end to it."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import psutil  # type: ignore[import-untyped]

from autograder.running.clock import Clock, Usage
from autograder.running.sandbox import PROCESSES, sandbox

MAX_REPLY = 16 << 20  # bytes
MEMORY = 3 << 30  # bytes, all its processes together
RUNNING = 100  # of its processes at a time
STARTERS = ("bwrap", "unshare")
LOOK_EVERY = 0.25  # seconds
LOOP = "look for a loop that never ends"
FORGED = "it wrote into the pipe of the tests"


class NoAnswer(Exception):
    """The student's process did not answer; the text says why."""


@dataclass
class Limit:
    """The seconds that a reply may take, and what to say if it takes longer.

    With `grace`, the code is interrupted when they are over, and has so many more seconds to end.
    """

    seconds: float
    late: str
    grace: float = 0.0
    interrupted: bool = False
    clock: Clock = field(default_factory=Clock)


class Process:
    """trusted_child.py, started in the sandbox, with a request pipe and a reply pipe."""

    def __init__(self, module: str, cpu_seconds: int) -> None:
        box = sandbox()
        user = box.user()
        with contextlib.ExitStack() as undo:
            self._folder = _Folder(box.boxed, user)
            undo.callback(self._folder.remove)
            request_end, self._requests = _pipe(undo)
            self._replies, reply_end = _pipe(undo)
            limits = (str(user or ""), str(PROCESSES) if box.counts_processes else "", str(cpu_seconds))
            arguments = (*limits, "serve", str(box.packages()), module, str(request_end), str(reply_end))
            self._process = subprocess.Popen(
                box.command(*arguments),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(request_end, reply_end),
                cwd=self._folder.path,
                env=box.environment(self._folder.path),
                start_new_session=True,  # so that a kill reaches what the code forked
            )
            undo.pop_all()
        os.close(request_end)
        os.close(reply_end)
        os.set_blocking(self._requests, False)
        self._boxed = bool(box.prefix)
        self._buffer = b""

    def ask(self, request: Any, limit: Limit) -> Any:
        """The reply. Raises NoAnswer when the time is up, the process ends, or what comes is no reply."""
        data = json.dumps(request).encode("ascii") + b"\n"
        while data:  # a child that reads nothing must not keep the tests waiting
            self._wait([], [self._requests], limit)
            try:
                data = data[os.write(self._requests, data) :]
            except BrokenPipeError:
                raise NoAnswer(self._ending()) from None
        return self._read(limit)

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._requests)
        os.close(self._replies)
        self._folder.remove()

    def _read(self, limit: Limit) -> Any:
        while b"\n" not in self._buffer[-(1 << 16) :]:
            self._wait([self._replies], [], limit)
            received = os.read(self._replies, 1 << 16)
            self._buffer += received
            if not received:
                raise NoAnswer(self._ending())
            if len(self._buffer) > MAX_REPLY:
                raise NoAnswer(f"its result is larger than {MAX_REPLY >> 20} MiB")
        line, _, self._buffer = self._buffer.partition(b"\n")
        if self._buffer:
            raise NoAnswer(FORGED)
        with only_replies():
            return json.loads(line)

    def _wait(self, to_read: list[int], to_write: list[int], limit: Limit) -> None:
        """Until one can be. A reply that comes drop by drop takes its time too."""
        ready = False
        while not ready:
            ready = any(select.select(to_read, to_write, [], min(LOOK_EVERY, limit.seconds)))
            if not ready or limit.clock.unseen >= LOOK_EVERY:
                self._look(limit)

    def _look(self, limit: Limit) -> None:
        """Raises NoAnswer when the time is up or its processes together take too much; each alone has limits."""
        usage = Usage.of(self._process.pid)
        counted = limit.clock.look(usage)
        if counted >= limit.seconds + limit.grace:
            raise NoAnswer(limit.late)
        if counted >= limit.seconds and not limit.interrupted:
            limit.interrupted = True
            self._interrupt()
        if len(usage.memory) > RUNNING:
            raise NoAnswer(f"it started more than {RUNNING} processes")
        if sum(usage.memory) > MEMORY:
            raise NoAnswer(f"its processes took more than {MEMORY >> 30} GiB of memory")

    def _interrupt(self) -> None:
        """Reaches the interpreter behind those that only start it."""
        with contextlib.suppress(psutil.Error, ProcessLookupError, PermissionError):
            process = psutil.Process(self._process.pid)
            while process.name() in STARTERS and (children := process.children()):
                process = children[0]
            if process.name() not in STARTERS:
                process.send_signal(signal.SIGALRM)

    def _ending(self) -> str:
        try:
            code = self._process.wait(1)
        except subprocess.TimeoutExpired:
            return "it closed the pipe of the tests"
        number = code - 128 if self._boxed and code > 128 else -code  # bubblewrap tells of a signal as a shell does
        if number in set(signal.Signals):
            return f"its process was ended by {signal.Signals(number).name}"
        return f"it ended its process with exit status {code} instead of returning"


class _Folder:
    """The home of a process that does not bring its own."""

    def __init__(self, boxed: bool, owner: int | None) -> None:
        self._made = None if boxed else tempfile.TemporaryDirectory(prefix="minivllm-", ignore_cleanup_errors=True)
        self.path = self._made.name if self._made else "/"
        if self._made and owner is not None:
            os.chown(self.path, owner, owner)

    def remove(self) -> None:
        if self._made:
            self._made.cleanup()


def _pipe(undo: contextlib.ExitStack) -> tuple[int, int]:
    ends = os.pipe()
    for end in ends:
        undo.callback(os.close, end)
    return ends


@contextlib.contextmanager
def only_replies() -> Iterator[None]:
    """For reading what the student's process wrote: whatever is no reply of trusted_child.py is a forgery."""
    try:
        yield
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError, OverflowError):
        raise NoAnswer(FORGED) from None
