"""The process that runs one student's file: started by `autograder.trusted`, talks JSON lines over two pipes.

Run as a script with ``python -I``; it imports the standard library and two modules of minivllm, and nothing of the
tests. What it reports of the student's objects (what a call left of its arguments, above all) is taken down in the
student's own process: the modules that do it are not in ``sys.modules``, but a file that goes through the
interpreter's frames or its garbage collector can still find and change them. It then lies about itself alone.
"""

from __future__ import annotations

import importlib.util
import json
import os
import resource
import sys
import types
from pathlib import Path
from typing import Any

MEMORY = 4 << 30  # bytes
FILE_SIZE = 64 << 20  # bytes


def limit(cpu_seconds: int, processes: int | None) -> None:
    limits = {
        resource.RLIMIT_AS: MEMORY,
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
        spec = importlib.util.spec_from_file_location(full_name, folder / f"{name}.py")
        assert spec is not None and spec.loader is not None
        sys.modules[full_name] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    for name in ("encoding", "outcome"):
        del sys.modules[f"minivllm.lesson.{name}"]
    return module


def run_file(path: Path, outcome: Any) -> tuple[types.ModuleType, Any]:
    """Run the file as a module of its own name (not ``__main__``); what it defined before an error stays."""
    sys.modules["autograder"] = None  # type: ignore[assignment]  # an editable install would let it import the answer
    module = types.ModuleType("submission")
    module.__dict__.update(__file__=str(path), ______=outcome.______)
    sys.modules[module.__name__] = module
    try:
        code = compile(path.read_bytes(), str(path), "exec")
    except BaseException as raised:
        return module, {"ran": False, "error": outcome.describe(raised)}
    try:
        exec(code, module.__dict__)
    except BaseException as raised:
        return module, {"ran": True, "error": outcome.describe(raised)}
    return module, {"ran": True, "error": None}


def main() -> None:
    lesson, file, requests_fd, replies_fd, cpu_seconds, user, processes = sys.argv[1:]
    outcome = load_outcome(Path(lesson))
    requests = os.fdopen(int(requests_fd), "r", encoding="ascii")
    replies = os.fdopen(int(replies_fd), "w", encoding="ascii")
    os.set_inheritable(requests.fileno(), False)
    os.set_inheritable(replies.fileno(), False)
    me = os.getpid()
    if user:
        become(int(user))
    limit(int(cpu_seconds), int(processes) if processes else None)

    def reply(data: Any) -> None:
        if os.getpid() != me:  # the student's code forked, and this is the copy
            os._exit(0)
        replies.write(json.dumps(data) + "\n")
        replies.flush()

    module, loaded = run_file(Path(file), outcome)
    reply(loaded)
    for line in requests:
        reply(outcome.answer(module.__dict__, json.loads(line)))


if __name__ == "__main__":
    main()
