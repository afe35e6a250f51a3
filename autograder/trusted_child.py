"""The process that runs one student's file: started by `autograder.trusted`, talks JSON lines over two pipes.

Run as a script with ``python -I``; it imports the standard library and minivllm's outcome.py, and nothing of the tests.
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


def limit(cpu_seconds: int) -> None:
    for kind, amount in (
        (resource.RLIMIT_AS, MEMORY),
        (resource.RLIMIT_FSIZE, FILE_SIZE),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_CPU, cpu_seconds),
    ):
        resource.setrlimit(kind, (amount, amount))


def load_module(name: str, path: Path) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def run_file(file: Path, outcome: Any) -> tuple[types.ModuleType, Any]:
    """Run the file as a module of its own name (not ``__main__``); what it defined before an error stays."""
    sys.modules["autograder"] = None  # type: ignore[assignment]  # an editable install would let it import the answer
    module = types.ModuleType("submission")
    module.__dict__.update(__file__=str(file), ______=outcome.______)
    sys.modules[module.__name__] = module
    try:
        exec(compile(file.read_bytes(), file.name, "exec"), module.__dict__)
    except BaseException as raised:
        return module, outcome.describe(raised)
    return module, None


def main() -> None:
    outcome_path, file, requests_fd, replies_fd, cpu_seconds = sys.argv[1:]
    outcome: Any = load_module("minivllm.lesson.outcome", Path(outcome_path))
    requests = os.fdopen(int(requests_fd), "r", encoding="ascii")
    replies = os.fdopen(int(replies_fd), "w", encoding="ascii")
    os.set_inheritable(requests.fileno(), False)
    os.set_inheritable(replies.fileno(), False)
    me = os.getpid()
    limit(int(cpu_seconds))

    def reply(data: Any) -> None:
        if os.getpid() != me:  # the student's code forked, and this is the copy
            os._exit(0)
        replies.write(json.dumps(data) + "\n")
        replies.flush()

    module, error = run_file(Path(file), outcome)
    reply(error)
    for line in requests:
        reply(outcome.answer(module.__dict__, json.loads(line)))


if __name__ == "__main__":
    main()
