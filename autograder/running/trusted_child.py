"""The process that runs one student's code: started by `autograder.running.trusted`, talks JSON lines over two pipes.

Run as a script; it imports the standard library and two modules of minivllm, and nothing of the tests. What it
reports of the student's objects (what a call left of its arguments, above all) is taken down in the student's own
process: the modules that do it are not in ``sys.modules``, but code that goes through the interpreter's frames or its
garbage collector can still find and change them. It then lies about itself alone.
"""

from __future__ import annotations
import __future__

import ast
import asyncio
import base64
import builtins
import contextlib
import importlib.util
import inspect
import json
import linecache
import os
import re
import resource
import runpy
import signal
import sys
import types
from pathlib import Path
from typing import Any

MEMORY = 2 << 30  # bytes of one process; not of its address space, most of which is libraries if torch has CUDA
FILE_SIZE = 32 << 20  # bytes
FILES = 256  # open at a time
WATCHED_EVENTS = ("open", "os.listdir", "os.scandir", "sqlite3.connect")
ANSWERS = re.compile(r"autograder|solutions|gradebook|\bnbgrader\b|build/source")
LISTINGS = ("os.listdir", "os.scandir", "os.walk", "glob.glob", "pathlib.Path.glob", "pathlib.Path.rglob")
COMMANDS = ("subprocess.Popen", "os.system")
NETWORK = ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname")
ELSEWHERE = re.compile(
    r"(?:^|[ /'\"])\.\.(?:[/ '\"]|$)|(?:^| )~|(?:^| )/(?:[*.? ].*)?$"
    r"|(?:^| )/(?:home|root|work|mnt|srv|media|Users)(?:/|$)|\.ipynb|\bsubmitted\b"
)
PRIVATE = re.compile(r"^/etc/(?:passwd|shadow|group)|/\.(?:ssh|aws|netrc)\b|\.ipynb$")
FILE_MODULES = ("os", "glob", "pathlib", "posixpath", "genericpath", "shutil", "fnmatch", "subprocess", "codecs")
STUDENT = "<cell "
MAX_SEEN = 20
BUILTINS = vars(builtins)
OURS = dict(BUILTINS)
FUTURE = 0
for _feature in __future__.all_feature_names:
    FUTURE |= getattr(__future__, _feature).compiler_flag


def limit(cpu_seconds: int, processes: int | None) -> None:
    limits = {
        resource.RLIMIT_DATA: MEMORY,
        resource.RLIMIT_NOFILE: FILES,
        resource.RLIMIT_FSIZE: FILE_SIZE,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_CPU: cpu_seconds,
    }
    if processes is not None:
        limits[resource.RLIMIT_NPROC] = processes
    for kind, amount in limits.items():
        resource.setrlimit(kind, (amount, amount))


def become(user: int) -> None:
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)


def load_outcome(folder: Path) -> Any:
    """minivllm.lesson.outcome without the rest of its package, out of reach of an import."""
    for name in ("encoding", "outcome"):
        full_name = f"minivllm.lesson.{name}"
        spec = importlib.util.spec_from_file_location(full_name, folder / "lesson" / f"{name}.py")
        assert spec is not None and spec.loader is not None
        sys.modules[full_name] = module = importlib.util.module_from_spec(spec)
        module.__dict__["__builtins__"] = OURS
        spec.loader.exec_module(module)
    for name in ("encoding", "outcome"):
        del sys.modules[f"minivllm.lesson.{name}"]
    return module


def words(of: Any) -> str:
    """Of an audit event's argument: a path, a pattern, a command or the words of one."""
    if type(of) in (list, tuple):
        return " ".join(words(one) for one in of)
    return os.fsdecode(of) if isinstance(of, (str, bytes, os.PathLike)) else ""


class Watch:
    """Takes down where the code looks for answers, and lets it import none, wherever this runs."""

    def __init__(self) -> None:
        self._seen: list[dict[str, Any]] = []
        sys.addaudithook(self._hook)
        sys.meta_path.insert(0, self)

    def taken(self) -> list[dict[str, Any]]:
        seen, self._seen = self._seen, []
        return seen

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        """Importing the answers ends here, also where an editable install would find them."""
        if name.partition(".")[0] in ("autograder", "solutions", "nbgrader"):
            self._note(f"import {name}")
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    def _hook(self, event: str, args: tuple[Any, ...]) -> None:
        if not args:
            return
        if event in WATCHED_EVENTS:
            what = os.fsdecode(args[0]) if type(args[0]) in (str, bytes) else ""
            if ANSWERS.search(what):
                self._note(f"{event} {what[:200]}")
                return
        if event in NETWORK:
            address = args[1] if event == "socket.connect" else args[0]
            if type(address) in (str, tuple) and not str(address).startswith("/"):
                self._note(f"reach for the network: {address!r:.200}")
        elif event in LISTINGS or event in COMMANDS or event == "open":
            self._look_elsewhere(event, args)

    def _look_elsewhere(self, event: str, args: tuple[Any, ...]) -> None:
        """Only what the student's own line does: libraries look for fonts and caches in many places."""
        frame: types.FrameType | None = sys._getframe(2)
        while frame is not None and frame.f_globals.get("__name__") in FILE_MODULES:
            frame = frame.f_back
        if frame is None or not frame.f_code.co_filename.startswith(STUDENT):
            return
        what = " ".join(words(arg) for arg in args[:2]).strip()
        with contextlib.suppress(OSError):
            what = what.replace(os.getcwd(), ".")
        if (PRIVATE if event == "open" else ELSEWHERE).search(what):
            self._note(f"{event} {what[:200]}")

    def _note(self, what: str) -> None:
        frame: types.FrameType | None = sys._getframe()
        while frame is not None and not frame.f_code.co_filename.startswith(STUDENT):
            frame = frame.f_back
        if frame is None:
            return
        if len(self._seen) < MAX_SEEN:
            cell = frame.f_code.co_filename.removeprefix(STUDENT)[:-1]
            self._seen.append({"what": what, "cell": cell, "line": frame.f_lineno})


class TimeUp(BaseException):
    """What a statement is interrupted with, so that what was there before stays."""


class Code:
    """The student's module, which its statements fill one after the other."""

    def __init__(self, name: str, outcome: Any) -> None:
        self._outcome = outcome
        self._module = types.ModuleType(name)
        self._module.__dict__["______"] = outcome.______
        sys.modules[name] = self._module
        self._shell: Any = None
        self._loop: Any = None
        self._future = 0  # what ``from __future__`` has switched on
        self._lines: dict[str, list[str]] = {}
        self._runs = False
        self._changed: dict[str, Any] = {}
        signal.signal(signal.SIGALRM, self._interrupt)

    def run(self, name: str, source: str | bytes, line: int) -> dict[str, Any]:
        """What it defined before an error stays."""
        file = f"{STUDENT}{name}>"
        self._module.__dict__["__file__"] = name
        try:
            code = self._compile(source, file, line)
        except BaseException as raised:
            return {"ran": False, "late": False, "error": self._outcome.describe(raised)}
        try:
            self._runs = True
            self._theirs(self._evaluate, code)
            self._runs = False
        except BaseException as raised:
            self._runs = False
            return {"ran": True, "late": type(raised) is TimeUp, "error": self._outcome.describe(raised)}
        return {"ran": True, "late": False, "error": None}

    def _theirs(self, function: Any, *args: Any) -> Any:
        """Call it with the builtins as the student has left them, which are not those that this file uses."""
        BUILTINS.update(self._changed)
        try:
            return function(*args)
        finally:
            self._changed = {name: value for name, value in BUILTINS.items() if OURS.get(name, self) is not value}
            BUILTINS.update(OURS)

    def _interrupt(self, *signal: object) -> None:
        if self._runs:
            raise TimeUp

    def _evaluate(self, code: types.CodeType) -> None:
        """A coroutine runs in the loop that a notebook has, and so does what asks for that loop."""
        try:
            ended = eval(code, self._module.__dict__)
        except RuntimeError as raised:
            if str(raised) != "no running event loop":
                raise
            ended = self._in_loop(code)
            code = self._in_loop.__code__
        if code.co_flags & inspect.CO_COROUTINE:
            self._loop = self._loop or asyncio.new_event_loop()
            self._loop.run_until_complete(ended)

    async def _in_loop(self, code: types.CodeType) -> None:
        ended = eval(code, self._module.__dict__)
        if code.co_flags & inspect.CO_COROUTINE:
            await ended

    def _compile(self, source: str | bytes, file: str, line: int) -> types.CodeType:
        """A statement keeps its line in the cell; top-level ``await`` and ``display`` are there as in a notebook."""
        if not isinstance(source, str):
            return compile(source, file, "exec", dont_inherit=True)
        lines = self._lines.setdefault(file, [])
        lines += ["\n"] * (line - 1 - len(lines))
        lines[line - 1 :] = [f"{each}\n" for each in source.split("\n")]
        text = "\n" * (line - 1) + source
        linecache.cache[file] = (len(text), None, lines, file)
        code: types.CodeType = compile(
            text, file, "exec", self._future | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True
        )
        self._future |= code.co_flags & FUTURE
        if self._shell is None and not {"display", "get_ipython"}.isdisjoint(re.findall(r"\w+", source)):
            self._shell = self._start_shell()
        return code

    def _start_shell(self) -> Any:
        from IPython.core.interactiveshell import InteractiveShell
        from IPython.display import display
        from traitlets.config import Config

        class Shell(InteractiveShell):
            def enable_gui(self, gui: Any = None) -> None:
                """There is none, and ``%matplotlib inline`` asks for none."""

            def system(self, cmd: str) -> None:
                """There is no shell either, and in a notebook a command that fails raises nothing."""

        self._module.__dict__["display"] = display
        return Shell.instance(user_module=self._module, config=Config(HistoryManager={"enabled": False}))

    def look(self, name: str) -> dict[str, Any]:
        namespace = self._module.__dict__
        if name not in namespace:
            return {"kind": "missing", "value": None}
        target = namespace[name]
        if callable(target):
            return {"kind": "function", "value": None}
        return {"kind": "data", "value": self._outcome.encode(target)}

    def answer(self, request: dict[str, Any]) -> Any:
        match request["do"]:
            case "run":
                source = request["source"]
                source = source.encode("latin-1") if request["bytes"] else source
                return self.run(request["name"], source, request["line"])
            case "files":
                return write_files(request["files"])
            case "look":
                return self.look(request["name"])
        return self._theirs(self._outcome.answer, self._module.__dict__, request)


def write_files(files: dict[str, str]) -> None:
    for name, content in files.items():
        os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
        with open(name, "wb") as file:
            file.write(base64.b64decode(content))


def main() -> None:
    user, processes, cpu_seconds = (int(word) if word else None for word in sys.argv[1:4])
    if user is not None:
        become(user)
    limit(cpu_seconds or 0, processes)
    if sys.argv[4] == "kernel":
        sys.argv[:] = ["ipykernel_launcher", *sys.argv[5:]]
        runpy.run_module("ipykernel_launcher", run_name="__main__", alter_sys=True)
    else:
        serve(*sys.argv[5:])


def serve(minivllm: str, module: str, requests_fd: str, replies_fd: str) -> None:
    outcome = load_outcome(Path(minivllm))
    requests = os.fdopen(int(requests_fd), "r", encoding="ascii")
    replies = os.fdopen(int(replies_fd), "w", encoding="ascii")
    os.set_inheritable(requests.fileno(), False)
    os.set_inheritable(replies.fileno(), False)
    me = os.getpid()
    watch = Watch()
    code = Code(module, outcome)
    sys.path.append(os.getcwd())  # behind all that is there: a student's file takes nobody's place
    for line in requests:
        answer = code.answer(json.loads(line))
        if os.getpid() != me:  # the student's code forked, and this is the copy
            os._exit(0)
        replies.write(json.dumps({"answer": answer, "seen": watch.taken()}) + "\n")
        replies.flush()


if __name__ == "__main__" and len(sys.argv) > 1:
    main()
