"""A student's file in a process of its own: whatever it does costs only itself, and time that has an end."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from textwrap import dedent, indent
from typing import Any

import pytest
import torch

from autograder.judging.exercises import grade_file
from autograder.running import trusted
from autograder.running.pipe import Process
from autograder.running.trusted import Student, StudentFile
from minivllm.lesson import outcome
from tests.autograder.versions import ANSWER


def file_of(tmp_path: Path, source: str, name: str = "student.py") -> Path:
    path = tmp_path / name
    path.write_text(dedent(source), encoding="utf-8")
    return path


def answer_that_first(does: str) -> str:
    """The answer, whose function does something more at its start."""
    head = '    if token_budget < 0:\n        raise ValueError("negative token budget")\n'
    return "import os, signal, sys, time\n" + ANSWER.replace("from __future__ import annotations\n", "").replace(
        head, indent(dedent(does), "    ") + head
    )


def run_try(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "autograder", "try", *arguments], capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("does", "says"),
    [
        ("while True: pass\n", "took longer than"),
        ("time.sleep(60)\n", "took longer than"),
        ("signal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass\n", "took longer than"),
        ("while True:\n    try:\n        time.sleep(9)\n    except BaseException:\n        pass\n", "took longer than"),
        ("os._exit(0)\n", "ended its process with exit status 0"),
        ("os.kill(os.getpid(), signal.SIGSEGV)\n", "ended by SIGSEGV"),
        ("os.kill(os.getpid(), signal.SIGKILL)\n", "ended by SIGKILL"),
        ("os.closerange(3, 1024)\n", "gave no answer"),
        (
            "for fd in range(3, 1024):\n    try: os.write(fd, b'1.0\\n' * 9)\n    except OSError: pass\n",
            "wrote into the pipe",
        ),
        ("sys.exit(0)\n", "SystemExit"),
        ("raise KeyboardInterrupt\n", "was interrupted"),
        ("bytearray(1 << 33)\n", "MemoryError"),
        ("return [[]] * 10**7\n", "the result is of type list of more than 100000 items"),
        ("return 'x' * 10**8\n", "the result is of type str of 100000000 characters"),
        ("return {}, 1 << 20_000\n", "a number is of type int of 20001 bits, not int"),
        ("x = []\nx.append(x)\nreturn (x, x)\n", "the plan is of type list, not dict"),
        ("return unified_token_plan(requests, token_budget)\n", "RecursionError"),
        ("input()\n", "EOFError"),
        ("raise RuntimeError('two\\nlines and \\ud800')\n", "RuntimeError: two lines and \\ud800;"),
    ],
)
def test_a_call_that_never_answers_costs_the_points_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, does: str, says: str
) -> None:
    monkeypatch.setattr(trusted, "FILE_SECONDS", 5.0)
    report = grade_file("unified_token_plan", file_of(tmp_path, answer_that_first(does)))
    assert report.points == 0
    assert says in report.messages[0]


@pytest.mark.parametrize(
    "does",
    [
        "sys.stdout.write('x' * 10**6)\nsys.stderr.write('y' * 10**6)\n",
        "os.write(1, b'x' * 10**6)\nos.write(2, b'y' * 10**6)\n",
        "sys.stdout = sys.stderr = None\n",
        "if os.fork() == 0:\n    return {}, 0\n",
        "sys.setrecursionlimit(60 + len(sys._current_frames()))\n",
        "os.chdir('/')\n",
    ],
)
def test_a_right_answer_keeps_its_points_whatever_else_it_does(tmp_path: Path, does: str) -> None:
    report = grade_file("unified_token_plan", file_of(tmp_path, answer_that_first(does)))
    assert report.points == 3, report.messages


def test_a_statement_that_takes_long_is_interrupted_and_what_was_there_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[str] = []

    class Counted(Process):
        def __init__(self, module: str, cpu_seconds: int) -> None:
            started.append(module)
            super().__init__(module, cpu_seconds)

    monkeypatch.setattr(trusted, "Process", Counted)
    monkeypatch.setattr(trusted, "STATEMENT_SECONDS", 1.0)
    with Student("__main__", 60) as student:
        assert student.step("cell", "found = []", 1).error is None
        ended = student.step("cell", "import time\nwhile True:\n    found.append(1)\n    time.sleep(0.01)", 2)
        assert ended.late and not ended.killed
        assert "took longer than 1 s" in str(ended.error)
        assert student.call("found").value[0] == 1 and len(started) == 1
        stubborn = "while True:\n    try:\n        time.sleep(9)\n    except BaseException: pass"
        ended = student.step("cell", stubborn, 3)
        assert ended.killed and "took longer than 1 s" in str(ended.error)
        assert student.step("cell", "import os\nos._exit(3)", 4).killed
        assert student.call("found").value == [] and len(started) == 3, "what was interrupted is not run again"


def test_a_hang_in_one_idea_costs_that_idea_alone(tmp_path: Path) -> None:
    hangs = ANSWER.replace("        if take:\n", "        while not take:\n            pass\n        if take:\n")
    report = grade_file("unified_token_plan", file_of(tmp_path, hangs))
    assert {name for name, points in report.parts.items() if points == 0} == {"no_gap", "bad_counters", "untouched"}
    assert "a call took longer than 2 s" in report.messages[0]


@pytest.mark.parametrize(
    ("source", "points", "says"),
    [
        ("while True: pass\n", 0, "loading the file took longer than 3 s"),
        ("import os\nos._exit(3)\n", 0, "ended its process with exit status 3"),
        ("raise SystemExit('bye')\n", 0, "running the file stopped with SystemExit: bye"),
        ("import nowhere_to_be_found\n", 0, "ModuleNotFoundError"),
        ("from autograder.judging.reference.unified_token_plan import unified_token_plan\n", 0, "ModuleNotFoundError"),
        ("", 0, "is not defined"),
        (
            ANSWER + "\nassert unified_token_plan([], 3) == 4\n",
            3,
            "stopped with AssertionError; what it defined before was graded",
        ),
        (ANSWER + "\nraise SystemExit(1)\n", 3, "stopped with SystemExit: 1; what it defined before was graded"),
        (ANSWER + "\nif __name__ == '__main__':\n    while True: pass\n", 3, None),
        (ANSWER + "\nimport atexit, time\natexit.register(time.sleep, 60)\n", 3, None),
        (ANSWER + "\nimport threading, time\nthreading.Thread(target=time.sleep, args=(60,)).start()\n", 3, None),
    ],
)
def test_the_file_is_run_as_a_module_and_what_it_defined_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, points: float, says: str | None
) -> None:
    if source.startswith("while"):
        monkeypatch.setattr(trusted, "FILE_SECONDS", 3.0)
    report = grade_file("unified_token_plan", file_of(tmp_path, source))
    assert report.points == points
    assert (says in report.messages[0]) if says else report.messages == []


@pytest.mark.parametrize(
    "content", [b"\xff\xfe\x00 no utf-8", b"def f():\n    return '\xe9'\n", b"\x00\x00\x00", ANSWER.encode("utf-16")]
)
def test_a_file_that_is_no_python_text_costs_only_itself(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "student.py"
    path.write_bytes(content)
    report = grade_file("unified_token_plan", path)
    assert report.points == 0
    assert report.messages[0].startswith("running the file stopped with ")


def test_bad_files_among_good_ones_change_nothing_for_the_good_ones(tmp_path: Path) -> None:
    files = [
        file_of(tmp_path, source, name)
        for name, source in (
            ("a.py", ANSWER),
            ("hang.py", "while True: pass\n"),
            ("王小明 (1).py", ANSWER),
            ("exit.py", answer_that_first("os._exit(1)\n")),
            ("group.py", "import os, signal\nos.killpg(0, signal.SIGTERM)\n"),
            (
                "parent.py",
                "import os, signal\nos.kill(os.getppid(), signal.SIGTERM)\nos.kill(os.getppid(), signal.SIGKILL)\n",
            ),
            ("everybody.py", "import os, signal\nos.kill(-1, signal.SIGKILL)\n"),
            ("b.py", ANSWER),
        )
    ]
    started = time.monotonic()
    done = run_try("unified_token_plan", "--json", *map(str, files))
    assert time.monotonic() - started < 30, "a hang has 10 seconds"
    rows: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(Path(row["file"]).name, row["points"], row["of"]) for row in rows] == [
        ("a.py", 3, 3),
        ("hang.py", 0, 3),
        ("王小明 (1).py", 3, 3),
        ("exit.py", 0, 3),
        ("group.py", 0, 3),
        ("parent.py", 0, 3),
        ("everybody.py", 0, 3),
        ("b.py", 3, 3),
    ]
    assert all(set(row) == {"file", "points", "of", "parts", "messages"} for row in rows)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("unified_token_plan", "no-such-file.py"), "no-such-file.py is not there"),
        (("unified_token_plan", "/"), "/ is a folder"),
        (
            ("no_such_exercise", __file__),
            "unknown exercise 'no_such_exercise': choose one of unified_token_plan, source_mapping",
        ),
        (("unified_token_plan",), "FILE"),
        ((), "exercise"),
    ],
)
def test_a_bad_command_line_is_one_line_on_stderr(arguments: tuple[str, ...], says: str) -> None:
    done = run_try(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert says in done.stderr and done.stderr.count("\n") == 1


def test_the_mapping_to_the_source_can_be_tried_too(tmp_path: Path) -> None:
    path = file_of(tmp_path, 'source_mapping = {"progress_counter": "Request.num_computed_tokens"}\n')
    report = grade_file("source_mapping", path)
    assert report.parts == {"progress_counter": 0.25, "running_charge": 0, "waiting_charge": 0, "other_gate": 0}


def test_the_students_process_loads_nothing_of_the_tests(tmp_path: Path) -> None:
    source = """
        import sys

        def loaded():
            loaded = {name.partition(".")[0] for name, module in sys.modules.items() if module}
            return loaded.isdisjoint({"autograder", "torch", "matplotlib", "numpy"})
    """
    with StudentFile(file_of(tmp_path, source)) as student:
        outcome = student.call("loaded")
    assert outcome.value is True


def test_what_a_file_writes_is_gone_afterwards(tmp_path: Path) -> None:
    source = """
        import os, tempfile
        places = os.getcwd(), tempfile.gettempdir(), "/dev/shm"
        def found():
            return [name for place in places if os.path.isdir(place) for name in os.listdir(place)]
        def write():
            for place in places:
                if os.path.isdir(place):
                    open(os.path.join(place, "litter.txt"), "w").write("x")
            return found()
    """
    with StudentFile(file_of(tmp_path, source)) as student:
        written = student.call("write").value
        assert set(written) == {"litter.txt"}
    with StudentFile(file_of(tmp_path, source)) as student:
        assert student.call("found").value == []
    assert not any(Path(place, "litter.txt").exists() for place in (Path.cwd(), "/tmp", "/dev/shm"))


def test_calls_that_are_slow_together_are_told_of_the_files_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trusted, "FILE_SECONDS", 2.0)
    report = grade_file("unified_token_plan", file_of(tmp_path, answer_that_first("time.sleep(0.2)\n")))
    assert any("all calls together used up their 2 s" in message for message in report.messages)
    assert not any("a call took longer" in message for message in report.messages)


def test_a_file_that_does_not_compile_is_told_that_nothing_ran(tmp_path: Path) -> None:
    report = grade_file("unified_token_plan", file_of(tmp_path, "def f(:\n"))
    assert report.points == 0
    assert "SyntaxError" in report.messages[0] and report.messages[0].endswith("nothing of it ran")


def test_a_fault_of_the_tests_costs_one_file_and_is_told_as_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outcome, "read_reply", lambda *_: 1 / 0)
    report = grade_file("unified_token_plan", file_of(tmp_path, ANSWER))
    assert report.points == 0 and set(report.parts.values()) == {0.0}
    assert report.messages == [
        "the tests stopped with ZeroDivisionError: division by zero; that is their fault, whatever the file does"
    ]


FORGED_REPLIES = (
    '{"value": null, "args_after": null, "error": null, "stderr": ""}',
    '{"value": null, "args_after": [3, []], "error": null, "stderr": ""}',
    '{"value": null, "args_after": [1, 2], "error": {"types": [], "message": ""}, "stderr": ""}',
    '{"value": null, "args_after": [1, 2], "error": {"types": [3], "message": ""}, "stderr": ""}',
    '{"value": null, "args_after": [1, 2], "error": {"types": ["ValueError"], "message": 3}, "stderr": ""}',
    '{"value": {"tuple": [{"dict": [["A", 1e999]]}, NaN]}, "args_after": [1, 2], "error": null, "stderr": ""}',
    '{"value": {"tuple": [{"dict": []}, {"int": "0x'
    + "f" * 9000
    + '"}]}, "args_after": [1, 2], "error": null, "stderr": ""}',
    '{"value": ' + "9" * 5000 + ', "args_after": [1, 2], "error": null, "stderr": ""}',
    '{"value": ' + "[" * 5000 + "]" * 5000 + ', "args_after": [1, 2], "error": null, "stderr": ""}',
    "[]",
)


@pytest.mark.parametrize("reply", FORGED_REPLIES, ids=range(len(FORGED_REPLIES)))
def test_a_forged_reply_costs_only_the_file_that_writes_it(tmp_path: Path, reply: str) -> None:
    does = (
        f"for fd in range(3, 1024):\n    try: os.write(fd, {(reply + chr(10)).encode()!r})\n    except OSError: pass\n"
    )
    report = grade_file("unified_token_plan", file_of(tmp_path, answer_that_first(does)))
    assert report.points == 0
    assert "that is their fault" not in " ".join(report.messages)


def test_replies_forged_in_advance_do_not_make_the_tests_wait(tmp_path: Path) -> None:
    valid = '{"value": null, "args_after": [1, 2], "error": null, "stderr": ""}\n'
    does = f"for fd in range(3, 1024):\n    try: os.write(fd, {valid.encode()!r} * 500)\n    except OSError: pass\nwhile True: pass\n"
    started = time.monotonic()
    report = grade_file("unified_token_plan", file_of(tmp_path, answer_that_first(does)))
    assert report.points == 0 and time.monotonic() - started < 15


@pytest.mark.parametrize(
    "does",
    [
        'requests[0]["slots"] = list(range(200_000))\n',
        "requests and requests[0].update(plan=requests)\n",
        "requests.extend([requests[0]] * 100_001)\n",
        "requests.append(())\n",
        "requests.append(None)\n",
        "requests.clear()\n",
    ],
)
def test_what_becomes_of_the_requests_never_stops_the_tests(tmp_path: Path, does: str) -> None:
    changes = ANSWER.replace(
        "    return plan, token_budget\n", f"    if requests:\n        {does}    return plan, token_budget\n"
    )
    report = grade_file("unified_token_plan", file_of(tmp_path, changes))
    assert report.parts["untouched"] == 0
    assert "that is their fault" not in " ".join(report.messages)
    assert "requests" in report.messages[0] and "changed" in report.messages[0]


def test_a_function_of_tensors_is_called_through_the_same_door(tmp_path: Path) -> None:
    source = """
        import torch

        def add_rows(out, x, weight):
            out.copy_(x * weight)
            return out.sum(-1)
    """
    x, weight = torch.arange(6.0).reshape(2, 3), torch.tensor([1.0, 0.5, 2.0])
    with StudentFile(file_of(tmp_path, source)) as file:
        outcome = file.call("add_rows", torch.full((2, 3), float("nan")), x, weight)
    assert outcome.error is None, outcome.error
    assert torch.equal(outcome.args_after[0], x * weight)
    assert torch.equal(outcome.value, (x * weight).sum(-1))
