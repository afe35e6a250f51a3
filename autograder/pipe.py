"""The student's process as the tests have it: JSON lines over two pipes, a time for each, and an end to it."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import psutil  # type: ignore[import-untyped]

from autograder.sandbox import PROCESSES, sandbox

MAX_REPLY = 16 << 20  # bytes
MEMORY = 3 << 30  # bytes, all its processes together
RUNNING = 100  # of its processes at a time
LOOK_EVERY = 0.25  # seconds
LOOP = "look for a loop that never ends"
FORGED = "it wrote into the pipe of the tests"


class NoAnswer(Exception):
    """The student's process did not answer; the text says why."""


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

    def ask(self, request: Any, seconds: float, late: str) -> Any:
        """The reply. Raises NoAnswer when the time is up, the process ends, or what comes is no reply."""
        until = time.monotonic() + seconds
        data = json.dumps(request).encode("ascii") + b"\n"
        while data:  # a child that reads nothing must not keep the tests waiting
            if not select.select([], [self._requests], [], max(0.0, until - time.monotonic()))[1]:
                raise NoAnswer(late)
            try:
                data = data[os.write(self._requests, data) :]
            except BrokenPipeError:
                raise NoAnswer(self._ending()) from None
        return self._read(until, late)

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._requests)
        os.close(self._replies)
        self._folder.remove()

    def _read(self, until: float, late: str) -> Any:
        while b"\n" not in self._buffer[-(1 << 16) :]:
            self._wait(until, late)
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

    def _wait(self, until: float, late: str) -> None:
        """Until something can be read. Limits of single processes would let many together take the whole machine."""
        while not select.select([self._replies], [], [], max(0.0, min(LOOK_EVERY, until - time.monotonic())))[0]:
            if time.monotonic() >= until:
                raise NoAnswer(late)
            used = self._memory()
            if len(used) > RUNNING:
                raise NoAnswer(f"it started more than {RUNNING} processes")
            if sum(used) > MEMORY:
                raise NoAnswer(f"its processes took more than {MEMORY >> 30} GiB of memory")

    def _memory(self) -> list[int]:
        """Bytes of each of its processes that still runs."""
        used = []
        with contextlib.suppress(psutil.Error):
            for process in psutil.Process(self._process.pid).children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    used.append(process.memory_info().rss)
        return [size for size in used if size]

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
