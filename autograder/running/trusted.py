"""Tests outside the student's process: student code gets a process of its own, its functions are called over a pipe.

The tests run here and see plain data (`minivllm.lesson.outcome`); the student's process never holds them. A hang, an
exit, a crash, a flood of output or a forged reply costs the submission that does it, and nobody else.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from autograder.running.pipe import LOOP, Limit, NoAnswer, Process, only_replies
from minivllm.lesson import outcome
from minivllm.lesson.encoding import decode
from minivllm.lesson.outcome import Outcome, Raised

FILE_SECONDS = 10.0
EXERCISE_SECONDS = 12.0
CELL_SECONDS = 8.0
STATEMENT_SECONDS = 4.0
OWN_SECONDS = 20.0  # for a notebook's own cells
DEFINITION_SECONDS = 5.0  # for definitions that come when that is used up
GRACE = 1.0  # seconds for a statement that is interrupted
RERUN_SECONDS = 15.0  # for the same code once more, in processes that were started anew
CALL_SECONDS = 2.0
MAX_CPU_SECONDS = 90
MAX_SEEN = 50
NO_ANSWER = "autograder.running.trusted.NoAnswer"


@dataclass(frozen=True)
class Ran:
    """How a piece of code ended. `ran` is False if it could not even be compiled.

    Attributes:
        late: it was interrupted after its own time.
        killed: its process did not survive it.
    """

    error: Raised | None = None
    ran: bool = True
    late: bool = False
    killed: bool = False


@dataclass(frozen=True)
class Seen:
    """Student code looked for answers: `what` it did, and the line (1-based) of the cell that did it."""

    what: str
    cell: str
    line: int


@dataclass(frozen=True)
class _Piece:
    name: str
    source: str | bytes
    line: int = 1
    most: float = CELL_SECONDS
    what: str = "the cell"
    grace: float = 0.0

    @property
    def request(self) -> dict[str, Any]:
        text = self.source if isinstance(self.source, str) else self.source.decode("latin-1")
        return {"name": self.name, "source": text, "line": self.line, "bytes": isinstance(self.source, bytes)}


class Student:
    """One student's code in a process of its own, started anew after something that it does not survive.

    Pieces of code run one after the other in one module; `call` is a `minivllm.lesson.outcome.Call`. What was defined
    before an error can be called. A piece that hangs or ends the process is left out when the rest runs again. All
    together may take `seconds` (anew after `restart_clock`), one call CALL_SECONDS, as `clock` counts them. `files` are
    there from the start, by their names below the folder that the code runs in.
    """

    def __init__(self, module: str, seconds: float, files: Mapping[str, bytes] | None = None) -> None:
        self._module = module
        self._files = {name: base64.b64encode(content).decode() for name, content in (files or {}).items()}
        self.restart_clock(seconds)
        self._ran: list[_Piece] = []
        self._rerun = 0.0
        self._process: Process | None = None
        self.seen: list[Seen] = []
        self.cut_off: list[str] = []
        """Why calls gave no answer."""

    def __enter__(self) -> Student:
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop()

    def restart_clock(self, seconds: float, used: float = 0.0) -> None:
        """For other code, which a hang in the code before must not cost."""
        self._seconds, self.used = seconds, used

    @property
    def is_out_of_time(self) -> bool:
        return self.used >= self._seconds

    def run(self, name: str, source: str | bytes, most: float = CELL_SECONDS, what: str = "the cell") -> Ran:
        """Run the source as the piece called `name`; `what` is how a message calls it."""
        return self._first(_Piece(name, source, most=most, what=what))

    def step(self, name: str, statement: str, line: int) -> Ran:
        """Run one statement of the cell called `name`. One that takes long is interrupted, and what was there stays."""
        return self._first(_Piece(name, statement, line, STATEMENT_SECONDS, "it", GRACE))

    def _first(self, piece: _Piece) -> Ran:
        try:
            ended = self._run(piece)
        except NoAnswer as error:
            had_time = not self.is_out_of_time or self._process is not None
            self._stop()
            return Ran(_raised(error), killed=had_time)
        if not ended.late:
            self._ran.append(piece)
        return ended

    def call(self, name: str, *args: Any, **more: tuple[Any, ...] | None) -> Outcome:
        try:
            what = f"a call took longer than {CALL_SECONDS:g} s; {LOOP}"
            reply = self._ask({"do": "call", **outcome.write_request(name, args, **more)}, CALL_SECONDS, what)
            with only_replies():
                return outcome.read_reply(reply, len(args))
        except NoAnswer as error:
            self._stop()
            self.cut_off.append(str(error))
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

    def _run(self, piece: _Piece) -> Ran:
        late = f"{piece.what} took longer than {piece.most:g} s; {LOOP}"
        reply = self._ask({"do": "run", **piece.request}, piece.most, late, piece.grace)
        with only_replies():
            if reply["late"] is True:
                return Ran(_raised(NoAnswer(self._used_up if self.is_out_of_time else late)), late=True)
            return Ran(outcome.read_error(reply["error"]), reply["ran"] is True)

    def _ask(self, request: Any, most: float, late: str, grace: float = 0.0) -> Any:
        process = self._process or self._start()
        limit = self._limit(most, late)
        limit.grace = grace
        try:
            reply = process.ask(request, limit)
        finally:
            self.used += limit.clock.counted
        with only_replies():
            for look in reply["seen"][: MAX_SEEN - len(self.seen)]:
                self.seen.append(Seen(str(look["what"])[:300], str(look["cell"])[:100], int(look["line"])))
            return reply["answer"]

    def _start(self) -> Process:
        """With all that ran before. What that takes once more is not the time of what comes next."""
        self._limit(0, "")
        self._process = Process(self._module, MAX_CPU_SECONDS)
        seconds, used = self._seconds, self.used
        self.restart_clock(RERUN_SECONDS, self._rerun)
        try:
            if self._files:
                self._ask({"do": "files", "files": self._files}, CELL_SECONDS, "its files could not be put beside it")
            for piece in self._ran:
                self._run(replace(piece, what=f"{piece.name}, run once more,"))
        finally:
            self._rerun = self.used if self._ran else 0.0
            self.restart_clock(seconds, used)
        return self._process

    def _stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process = None

    def _limit(self, most: float, late: str) -> Limit:
        """For what comes next."""
        left = self._seconds - self.used
        if left <= 0:
            raise NoAnswer(self._used_up)
        return Limit(most, late) if left >= most - 0.5 else Limit(left, self._used_up)

    @property
    def _used_up(self) -> str:
        return f"its code and all calls together used up their {self._seconds:g} s; {LOOP}, or make it faster"


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
