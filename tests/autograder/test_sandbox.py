"""Where student files run: without the answers, the network and other processes, and what is said where that can't be."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

import autograder.judging.reference.unified_token_plan as reference
from autograder.judging.exercises import grade_file
from autograder.paths import CLONE
from autograder.running import sandbox
from autograder.running.trusted import StudentFile
from tests.autograder.versions import ANSWER
from tests.processes import still_running

ANSWER_FILE = str(Path(reference.__file__).resolve())
CHEATS = {
    "by path": f"exec(open({ANSWER_FILE!r}).read())\n",
    "by an import": "from autograder.judging.reference.unified_token_plan import unified_token_plan\n",
    "by an import after all": """
        import sys
        del sys.modules["autograder"]
        from autograder.judging.reference.unified_token_plan import unified_token_plan
    """,
    "by sys.path": f"""
        import sys
        sys.modules.pop("autograder")
        sys.path.insert(0, {str(CLONE)!r})
        from autograder.judging.reference.unified_token_plan import unified_token_plan
    """,
    "by another process": f"""
        import subprocess, sys
        exec(subprocess.run(["cat", {ANSWER_FILE!r}], capture_output=True, text=True, check=True).stdout)
    """,
}


def grade(tmp_path: Path, source: str) -> tuple[float, list[str]]:
    path = tmp_path / "student.py"
    path.write_text(dedent(source), encoding="utf-8")
    report = grade_file("unified_token_plan", path)
    return report.points, report.messages


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The only folder on PATH, empty at first."""
    folder = tmp_path / "tools"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    sandbox.sandbox.cache_clear()
    yield folder
    sandbox.sandbox.cache_clear()


def with_unshare(tools: Path) -> None:
    found = shutil.which("unshare", path="/usr/bin:/bin")
    assert found
    (tools / "unshare").symlink_to(found)


@pytest.mark.requires_debian("bubblewrap")
@pytest.mark.parametrize("cheat", CHEATS.values(), ids=CHEATS)
def test_the_answer_is_out_of_reach(tmp_path: Path, cheat: str) -> None:
    assert sandbox.sandbox().lacks == ""
    points, messages = grade(tmp_path, cheat)
    assert points == 0
    assert messages[0].startswith("running the file stopped with ")


@pytest.mark.requires_debian("bubblewrap")
def test_a_file_sees_an_empty_home_and_no_network_and_no_other_process(tmp_path: Path) -> None:
    source = """
        import os, socket
        def seen():
            names = [name for name in ("/proc", "/var", "/etc/passwd", "/usr/bin") if os.path.exists(name)]
            return os.listdir(), names, [name for _, name in socket.if_nameindex()], os.getuid() != 0
    """
    path = tmp_path / "student.py"
    path.write_text(dedent(source), encoding="utf-8")
    with StudentFile(path) as student:
        assert student.call("seen").value == ([], [], ["lo"], True)


def start_and_leave(tmp_path: Path) -> str:
    """Grade a file that starts a process in a session of its own; what to look for afterwards."""
    mark = f"sleeper-{tmp_path.name}-{os.getpid()}"
    command = f"[sys.executable, '-c', 'import time; time.sleep(120)', {mark!r}]"
    start = f"import subprocess, sys\nsubprocess.Popen({command}, start_new_session=True)\n"
    assert grade(tmp_path, ANSWER + start) == (3, [])
    return mark


def test_what_a_file_starts_is_gone_afterwards(tmp_path: Path) -> None:
    assert not still_running(start_and_leave(tmp_path))


def test_without_bubblewrap_unshare_still_ends_what_a_file_starts(tmp_path: Path, tools: Path) -> None:
    with_unshare(tools)
    box = sandbox.sandbox()
    assert box.prefix[0] == "unshare" and "no bubblewrap (not installed)" in box.lacks
    test_what_a_file_starts_is_gone_afterwards(tmp_path)


def test_with_neither_files_are_graded_all_the_same(tmp_path: Path, tools: Path) -> None:
    box = sandbox.sandbox()
    assert box.prefix == () and "may live on" in box.lacks
    assert grade(tmp_path, ANSWER) == (3, [])
    left = still_running(start_and_leave(tmp_path))
    assert len(left) == 1
    os.kill(left[0], signal.SIGKILL)
    assert grade(tmp_path, "import os\nos._exit(1)\n")[0] == 0


@pytest.mark.parametrize("tool", ["unshare", ""])
def test_what_is_missing_is_told_in_one_line(tmp_path: Path, tools: Path, tool: str) -> None:
    if tool:
        with_unshare(tools)
    path = tmp_path / "student.py"
    path.write_text(ANSWER, encoding="utf-8")
    command = [sys.executable, "-m", "autograder", "try", "unified_token_plan", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "3/3" in done.stdout
    assert done.stderr.count("\n") == 1 and done.stderr.startswith("autograder: no bubblewrap (not installed)")


def test_a_bubblewrap_that_fails_is_not_used_and_says_why(tmp_path: Path, tools: Path) -> None:
    (tools / "bwrap").write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    (tools / "bwrap").chmod(0o755)
    assert "No permissions to create new namespace" in sandbox.sandbox().lacks
    assert grade(tmp_path, ANSWER) == (3, [])
