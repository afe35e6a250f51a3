"""Tests outside the student's process: each file gets a process of its own, its functions are called over a pipe.

The tests run here and see plain data (`minivllm.lesson.outcome`); the student's process never holds them. A hang, an
exit, a crash, a flood of output or a forged reply costs the file that does it, and nobody else.
"""

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
from pathlib import Path
from typing import Any

from autograder.sandbox import CHILD, PROCESSES, environment, sandbox
from minivllm.lesson import outcome
from minivllm.lesson.outcome import Outcome, Raised

FILE_SECONDS = 10.0
CALL_SECONDS = 2.0
MAX_REPLY = 16 << 20  # bytes
LOOP = "look for a loop that never ends"


class NoAnswer(Exception):
    """The student's process did not answer; the text says why. Its name stands in `Raised.types`."""


class StudentFile:
    """A student's file in a process of its own, started anew after a call that it does not survive.

    `call` is a `minivllm.lesson.outcome.Call`. `load_error` is what running the file raised, `ran` is False if it
    could not even be compiled; functions that were defined before an error can be called. All together may take
    FILE_SECONDS, one call CALL_SECONDS. Raises OSError if the file can't be read.
    """

    def __init__(self, path: Path) -> None:
        source = path.read_bytes()
        self._deadline = time.monotonic() + FILE_SECONDS
        self._folder = tempfile.TemporaryDirectory(prefix="minivllm-try-", ignore_cleanup_errors=True)
        self._copy = Path(self._folder.name).resolve() / path.name
        self._copy.write_bytes(source)
        user = sandbox().user
        if user is not None:
            for owned in (self._copy.parent, self._copy):
                os.chown(owned, user, user)
        self._process: _Process | None = None
        self.load_error: Raised | None = None
        self.ran = True

    def __enter__(self) -> StudentFile:
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop()
        self._folder.cleanup()

    def call(self, name: str, *args: Any, **more: tuple[Any, ...] | None) -> Outcome:
        try:
            process = self._process or self._start()
            seconds, late = self._time(CALL_SECONDS, f"a call took longer than {CALL_SECONDS:g} s; {LOOP}")
            reply = process.ask(outcome.write_request(name, args, **more), seconds, late)
            with _only_replies():
                return outcome.read_reply(reply, len(args))
        except NoAnswer as error:
            self._stop()
            return Outcome(None, args, Raised(("autograder.trusted.NoAnswer",), str(error)), "")

    def _start(self) -> _Process:
        seconds, late = self._time(FILE_SECONDS, f"loading the file took longer than {FILE_SECONDS:g} s; {LOOP}")
        self._process = _Process(self._copy, int(FILE_SECONDS) + 5)
        loaded = self._process.read(time.monotonic() + seconds, late)
        with _only_replies():
            self.load_error, self.ran = outcome.read_error(loaded["error"]), loaded["ran"] is True
        return self._process

    def _stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process = None

    def _time(self, most: float, late: str) -> tuple[float, str]:
        """The seconds for what comes next, and what to say if it takes longer."""
        left = self._deadline - time.monotonic()
        used_up = f"loading the file and all calls together used up its {FILE_SECONDS:g} s; {LOOP}, or make it faster"
        if left <= 0:
            raise NoAnswer(used_up)
        return (most, late) if left >= most - 0.5 else (left, used_up)


class _Process:
    """The child, with a request pipe and a reply pipe of JSON lines."""

    def __init__(self, file: Path, cpu_seconds: int) -> None:
        box = sandbox()
        lesson, folder = str(Path(outcome.__file__).resolve().parent), str(file.parent)
        user, processes = ("", "") if box.user is None else (str(box.user), str(PROCESSES))
        with contextlib.ExitStack() as undo:
            request_end, self._requests = _pipe(undo)
            self._replies, reply_end = _pipe(undo)
            arguments = (lesson, str(file), str(request_end), str(reply_end), str(cpu_seconds), user, processes)
            self._process = subprocess.Popen(
                box.command(folder, str(CHILD), *arguments),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(request_end, reply_end),
                cwd=folder,
                env=environment(folder),
                start_new_session=True,  # so that a kill reaches what the file forked
            )
            undo.pop_all()
        os.close(request_end)
        os.close(reply_end)
        os.set_blocking(self._requests, False)
        self._boxed = bool(box.prefix)
        self._buffer = b""

    def ask(self, request: Any, seconds: float, late: str) -> Any:
        until = time.monotonic() + seconds
        data = json.dumps(request).encode("ascii") + b"\n"
        while data:  # a child that reads nothing must not keep the tests waiting
            if not select.select([], [self._requests], [], max(0.0, until - time.monotonic()))[1]:
                raise NoAnswer(late)
            try:
                data = data[os.write(self._requests, data) :]
            except BrokenPipeError:
                raise NoAnswer(self._ending()) from None
        return self.read(until, late)

    def read(self, until: float, late: str) -> Any:
        """The next reply. Raises NoAnswer when the time is up, the process ends, or what comes is no reply."""
        while b"\n" not in self._buffer[-(1 << 16) :]:
            if not select.select([self._replies], [], [], max(0.0, until - time.monotonic()))[0]:
                raise NoAnswer(late)
            received = os.read(self._replies, 1 << 16)
            self._buffer += received
            if not received:
                raise NoAnswer(self._ending())
            if len(self._buffer) > MAX_REPLY:
                raise NoAnswer(f"its result is larger than {MAX_REPLY >> 20} MiB")
        line, _, self._buffer = self._buffer.partition(b"\n")
        if self._buffer:
            raise NoAnswer(FORGED)
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
        number = code - 128 if self._boxed and code > 128 else -code  # bubblewrap tells of a signal as a shell does
        if number in set(signal.Signals):
            return f"its process was ended by {signal.Signals(number).name}"
        return f"it ended its process with exit status {code} instead of returning"


FORGED = "it wrote into the pipe of the tests"


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
        raise NoAnswer(FORGED) from None
