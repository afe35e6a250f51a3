"""Tests outside the student's process: student code gets a process of its own, its functions are called over a pipe.

The tests run here and see plain data (`minivllm.lesson.outcome`); the student's process never holds them. A hang, an
exit, a crash, a flood of output or a forged reply costs the submission that does it, and nobody else.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autograder.running.pipe import LOOP, Limit, NoAnswer, Process, only_replies
from minivllm.lesson import outcome
from minivllm.lesson.encoding import decode
from minivllm.lesson.outcome import Outcome, Raised

FILE_SECONDS = 10.0
EXERCISE_SECONDS = 12.0
CELL_SECONDS = 8.0
CALL_SECONDS = 2.0
MAX_CPU_SECONDS = 60
MAX_SEEN = 50
NO_ANSWER = "autograder.running.trusted.NoAnswer"


@dataclass(frozen=True)
class Ran:
    """How a piece of code ended. `ran` is False if it could not even be compiled."""

    error: Raised | None = None
    ran: bool = True


@dataclass(frozen=True)
class Seen:
    """Student code looked for answers: `what` it did, and the line (1-based) of the cell that did it."""

    what: str
    cell: str
    line: int


class Student:
    """One student's code in a process of its own, started anew after something that it does not survive.

    Pieces of code run one after the other in one module; `call` is a `minivllm.lesson.outcome.Call`. What was defined
    before an error can be called. A piece that hangs or ends the process is left out when the rest runs again. All
    together may take `seconds` (anew after `restart_clock`), one call CALL_SECONDS, as `clock` counts them.
    """

    def __init__(self, module: str, seconds: float) -> None:
        self._module, self._seconds = module, seconds
        self.restart_clock()
        self._ran: list[tuple[str, str | bytes]] = []
        self._process: Process | None = None
        self.seen: list[Seen] = []

    def __enter__(self) -> Student:
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop()

    def restart_clock(self) -> None:
        """For another exercise, which a hang in the one before must not cost."""
        self._used = 0.0

    def run(self, name: str, source: str | bytes, most: float = CELL_SECONDS, what: str = "the cell") -> Ran:
        """Run the source as the piece called `name`; `what` is how a message calls it."""
        try:
            ended = self._run(name, source, most, what)
        except NoAnswer as error:
            self._stop()
            return Ran(_raised(error))
        self._ran.append((name, source))
        return ended

    def call(self, name: str, *args: Any, **more: tuple[Any, ...] | None) -> Outcome:
        try:
            what = f"a call took longer than {CALL_SECONDS:g} s; {LOOP}"
            reply = self._ask({"do": "call", **outcome.write_request(name, args, **more)}, CALL_SECONDS, what)
            with only_replies():
                return outcome.read_reply(reply, len(args))
        except NoAnswer as error:
            self._stop()
            return Outcome(None, args, _raised(error), "")

    def look(self, name: str) -> tuple[str, Any]:
        """("function", None), ("data", its value) or ("missing", None). Raises NoAnswer."""
        try:
            late = f"reading {name} took longer than {CALL_SECONDS:g} s"
            reply = self._ask({"do": "look", "name": name}, CALL_SECONDS, late)
            with only_replies():
                return str(reply["kind"]), decode(reply["value"])
        except NoAnswer:
            self._stop()
            raise

    def _run(self, name: str, source: str | bytes, most: float, what: str) -> Ran:
        text = source if isinstance(source, str) else source.decode("latin-1")
        request = {"do": "run", "name": name, "source": text, "bytes": isinstance(source, bytes)}
        reply = self._ask(request, most, f"{what} took longer than {most:g} s; {LOOP}")
        with only_replies():
            return Ran(outcome.read_error(reply["error"]), reply["ran"] is True)

    def _ask(self, request: Any, most: float, late: str) -> Any:
        process = self._process or self._start()
        limit = self._limit(most, late)
        try:
            reply = process.ask(request, limit)
        finally:
            self._used += limit.clock.counted
        with only_replies():
            for look in reply["seen"][: MAX_SEEN - len(self.seen)]:
                self.seen.append(Seen(str(look["what"])[:300], str(look["cell"])[:100], int(look["line"])))
            return reply["answer"]

    def _start(self) -> Process:
        self._limit(0, "")
        self._process = Process(self._module, MAX_CPU_SECONDS)
        for name, source in self._ran:
            self._run(name, source, CELL_SECONDS, f"{name}, run once more,")
        return self._process

    def _stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process = None

    def _limit(self, most: float, late: str) -> Limit:
        """For what comes next."""
        left = self._seconds - self._used
        used_up = f"its code and all calls together used up their {self._seconds:g} s; {LOOP}, or make it faster"
        if left <= 0:
            raise NoAnswer(used_up)
        return Limit(most, late) if left >= most - 0.5 else Limit(left, used_up)


class StudentFile(Student):
    """The code of one file. `load_error` is what running it raised. Raises OSError if it can't be read."""

    def __init__(self, path: Path) -> None:
        super().__init__("submission", FILE_SECONDS)
        self._name, self._source = path.name, path.read_bytes()
        self.load_error: Raised | None = None
        self.ran = True

    def __enter__(self) -> StudentFile:
        loaded = self.run(self._name, self._source, FILE_SECONDS, "loading the file")
        self.load_error, self.ran = loaded.error, loaded.ran
        return self


def _raised(error: NoAnswer) -> Raised:
    return Raised((NO_ANSWER,), str(error))
