"""A notebook's own code and graded answers, run on the student's machine as grading runs them: what will be missing.

`rehearsed` starts `main` in a process and a folder of its own, with copies of the files beside the notebook, and lets
it import what grading has.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

STATEMENT_SECONDS = 4.0
ALL_SECONDS = 60.0
MAX_BESIDE = 2 << 20  # bytes of files that grading puts beside the code
MAX_FILES = 200
SET_UP = "from minivllm.lesson import *"


@dataclass(frozen=True)
class Failed:
    """A statement, by its number, that stopped with this error."""

    number: int
    error: str


@dataclass(frozen=True)
class Rehearsed:
    """What failed, the names that are there at the end, and how many statements were run."""

    failed: tuple[Failed, ...]
    names: frozenset[str]
    ran: int


def rehearsed(statements: Sequence[str], packages: Sequence[str], beside: Path) -> Rehearsed:
    """Run these, one after the other, with `packages` and the standard library to import."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        home, report = Path(folder) / "home", Path(folder) / "report"
        home.mkdir()
        _copy(beside, home)
        report.touch()
        words = [sys.executable, "-P", "-c", "from minivllm.submission.rehearsal import main; main()", str(report)]
        process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=home,
            env={**os.environ, "MPLBACKEND": "agg"},
            start_new_session=True,
        )
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.communicate(json.dumps([list(statements), list(packages)]).encode(), timeout=ALL_SECONDS)
        _end(process)
        return _read(report.read_text(encoding="utf-8"))


def _end(process: subprocess.Popen[bytes]) -> None:
    """With what it started, where that can be."""
    if hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.wait()


def _read(report: str) -> Rehearsed:
    failed, names, ran = [], frozenset[str](), 0
    for line in report.splitlines():
        told = json.loads(line)
        ran = max(ran, told.get("number", 0) + 1)
        if "error" in told:
            failed.append(Failed(told["number"], told["error"]))
        names = frozenset(told.get("names", names))
    return Rehearsed(tuple(failed), names, ran)


def _copy(beside: Path, home: Path) -> None:
    found = (path for depth in ("*", "*/*", "*/*/*") for path in beside.glob(depth))
    plain = [p for p in found if p.is_file() and not p.is_symlink() and p.suffix != ".ipynb"]
    plain = [p for p in plain if not any(part.startswith(".") for part in p.relative_to(beside).parts)]
    size = 0
    for path in sorted(plain, key=lambda path: path.stat().st_size)[:MAX_FILES]:
        size += path.stat().st_size
        if size > MAX_BESIDE:
            break
        there = home / path.relative_to(beside)
        there.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, there)


# --- in the process -------------------------------------------------------------------------------------------------


class TimeUp(BaseException):
    """A statement took too long."""


class _Packages:
    """Refuses what grading lacks."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = {*names, *sys.stdlib_module_names}

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if "." not in name and name not in self._names and not (Path(f"{name}.py").exists() or Path(name).is_dir()):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def main() -> None:
    report, (statements, packages) = sys.argv[1], json.loads(sys.stdin.buffer.read())
    module = ModuleType("__main__")
    module.__dict__["display"] = lambda *things, **more: None
    sys.path.append(os.getcwd())
    with open(report, "a", encoding="utf-8") as out:

        def tell(**what: object) -> None:
            out.write(json.dumps(what) + "\n")
            out.flush()

        exec(SET_UP, module.__dict__)
        sys.modules["__main__"] = module
        sys.meta_path.insert(0, _Packages(packages))
        lacking = []
        for number, text in enumerate(statements):
            tell(number=number)
            error = _run(text, module.__dict__)
            if error.startswith("NameError"):
                lacking.append((number, text))  # it may stand below
            elif error:
                tell(number=number, error=error)
        for number, text in lacking:
            if error := _run(text, module.__dict__):
                tell(number=number, error=error)
        tell(names=[name for name in module.__dict__ if isinstance(name, str)])
    os._exit(0)


def _run(text: str, namespace: dict[str, Any]) -> str:
    try:
        with _limited():
            code = compile(text, "<cell>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
            ended = eval(code, namespace)
            if inspect.iscoroutine(ended):
                asyncio.run(ended)
    except TimeUp:
        return f"it took longer than {STATEMENT_SECONDS:g} s"
    except BaseException as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())}"[:300]
    return ""


@contextlib.contextmanager
def _limited() -> Iterator[None]:
    """One statement's time. Where there are no such signals, the whole has to do."""
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(*_: object) -> None:
        raise TimeUp

    signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, STATEMENT_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
