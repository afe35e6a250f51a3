"""Tests outside the student's process: each file gets a process of its own, its functions are called over a pipe.

The tests run here and see plain data (`minivllm.lesson.outcome`); the student's process never holds them. A hang, an
exit, a crash or a flood of output costs the file that does it, and nobody else.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from minivllm.lesson import outcome
from minivllm.lesson.outcome import Outcome, Raised

FILE_SECONDS = 10.0
CALL_SECONDS = 2.0
MAX_REPLY = 64 << 20  # bytes
CHILD = Path(__file__).with_name("trusted_child.py")


class NoAnswer(Exception):
    """The student's process did not answer; the text says why. Its name stands in `Raised.types`."""


class StudentFile:
    """A student's file in a process of its own, started anew after a call that it does not survive.

    `call` is a `minivllm.lesson.outcome.Call`. `load_error` is what running the file raised; functions that were
    defined before that can be called. All together may take FILE_SECONDS, one call CALL_SECONDS.
    """

    def __init__(self, path: Path) -> None:
        self._path = path.resolve()
        self._deadline = time.monotonic() + FILE_SECONDS
        self._folder = tempfile.TemporaryDirectory(prefix="minivllm-try-", ignore_cleanup_errors=True)
        self._process: _Process | None = None
        self.load_error: Raised | None = None

    def __enter__(self) -> StudentFile:
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop()
        self._folder.cleanup()

    def call(self, name: str, *args: Any, then: tuple[Any, ...] | None = None) -> Outcome:
        try:
            process = self._process or self._start()
            reply = process.ask(outcome.write_request(name, args, then), self._time(CALL_SECONDS))
            with _only_replies():
                return outcome.read_reply(reply)
        except NoAnswer as error:
            self._stop()
            return Outcome(None, args, Raised(("autograder.trusted.NoAnswer",), str(error)), "")

    def _start(self) -> _Process:
        seconds = self._time(FILE_SECONDS)
        self._process = _Process(self._path, self._folder.name, int(FILE_SECONDS) + 5)
        error = self._process.read(seconds, "to load the file")
        with _only_replies():
            self.load_error = error and Raised(tuple(error["types"]), error["message"])
        return self._process

    def _stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process = None

    def _time(self, most: float) -> float:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise NoAnswer(f"the file used up its {FILE_SECONDS:g} seconds; look for a loop that never ends")
        return min(most, left)


class _Process:
    """The child, with a request pipe and a reply pipe of JSON lines."""

    def __init__(self, file: Path, folder: str, cpu_seconds: int) -> None:
        with contextlib.ExitStack() as undo:
            request_end, self._requests = _pipe(undo)
            self._replies, reply_end = _pipe(undo)
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-I",
                    CHILD,
                    outcome.__file__,
                    file,
                    str(request_end),
                    str(reply_end),
                    str(cpu_seconds),
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(request_end, reply_end),
                cwd=folder,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
                start_new_session=True,  # so that a kill reaches what the file forked
            )
            undo.pop_all()
        os.close(request_end)
        os.close(reply_end)
        self._buffer = b""

    def ask(self, request: Any, seconds: float) -> Any:
        try:
            os.write(self._requests, json.dumps(request).encode("ascii") + b"\n")
        except BrokenPipeError:
            raise NoAnswer(self._ending()) from None
        return self.read(seconds, "to answer a call")

    def read(self, seconds: float, purpose: str) -> Any:
        """The next reply. Raises NoAnswer when the time is up, the process ends, or what comes is no reply."""
        until = time.monotonic() + seconds
        while b"\n" not in self._buffer:
            if not select.select([self._replies], [], [], max(0.0, until - time.monotonic()))[0]:
                raise NoAnswer(f"it took longer than {seconds:.3g} s {purpose}; look for a loop that never ends")
            received = os.read(self._replies, 1 << 16)
            self._buffer += received
            if not received:
                raise NoAnswer(self._ending())
            if len(self._buffer) > MAX_REPLY:
                raise NoAnswer(f"its result is larger than {MAX_REPLY >> 20} MiB")
        line, _, self._buffer = self._buffer.partition(b"\n")
        with _only_replies():
            return json.loads(line)

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._requests)
        os.close(self._replies)

    def _ending(self) -> str:
        try:
            code = self._process.wait(1)
        except subprocess.TimeoutExpired:
            return "it closed the pipe of the tests"
        if code < 0:
            return f"its process was ended by {signal.Signals(-code).name}"
        return f"it ended its process with exit status {code} instead of returning"


def _pipe(undo: contextlib.ExitStack) -> tuple[int, int]:
    ends = os.pipe()
    for end in ends:
        undo.callback(os.close, end)
    return ends


@contextlib.contextmanager
def _only_replies() -> Iterator[None]:
    try:
        yield
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
        raise NoAnswer("it wrote into the pipe of the tests") from None
