"""The instructor's guide, followed to the letter: every command in it is run, here or by the test that is named."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from autograder.classroom.demo import create, read_answers
from autograder.classroom.demo_files import LESSON
from autograder.gradebook.settling import open_notes
from autograder.gradebook.tables import reading
from autograder.paths import CLONE
from tests.autograder.rubric.data import PUBLIC
from tests.autograder.test_commands import run

pytestmark = pytest.mark.requires_debian("bubblewrap")

GUIDES = ("instructors.md", "instructors.zh.md")
ELSEWHERE = {
    "apt-get install bubblewrap": ".ci/run",
    "make setup": "tests/repo/test_make.py",
    "source .venv/bin/activate": "tests/repo/test_make.py",
    "make lab": "tests/browser/test_formgrader.py",
    "make student": "tests/repo/test_student_bundle.py",
    "make colab": "tests/repo/test_colab_bundle.py",
    "make answers": "tests/repo/test_answers.py",
    "make test": ".ci/run",
    "make course": "tests/repo/test_make.py",
    "python -m autograder demo": "tests/autograder/test_demo.py",
    "python -m autograder release": "tests/autograder/release/test_release.py",
    "nbgrader zip_collect": "tests/autograder/test_zip_collect.py",
    "nbgrader collect": "tests/autograder/release/test_exchange.py",
    "nbgrader fetch_feedback": "tests/autograder/release/test_exchange.py",
    "nbgrader generate_feedback": "tests/autograder/release/test_exchange.py",
    "nbgrader release_feedback": "tests/autograder/release/test_exchange.py",
    "nbgrader autograde": "tests/autograder/test_grading.py",
    "nbgrader export": "tests/autograder/test_grading.py",
    "nbgrader db upgrade": "tests/autograder/release/test_doctor.py",
    "minivllm check-submission": "tests/submission/test_check.py",
}
"""By the beginning of the command, the file whose tests run it."""
ENDS = {"python -m autograder report --final": 2}
"""Commands that have to refuse in the class of this test, and their exit codes."""


def commands(guide: str) -> Iterator[str]:
    """Of the blocks of shell lines, and those in the running text, without comments."""
    text = (CLONE / "docs" / guide).read_text(encoding="utf-8")
    blocks = re.findall(r"^```bash\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    for line in "".join(blocks).splitlines():
        yield from filter(None, (part.strip() for part in line.partition(" #")[0].split("&&")))
    inline = re.sub(r"(?s)```.*?```", "", text)
    yield from re.findall(r"`((?:python -m autograder|nbgrader|minivllm|make) [^`]+)`", inline)


@pytest.mark.parametrize("guide", GUIDES)
def test_every_command_of_the_guide_is_run_by_some_test(guide: str) -> None:
    found = list(commands(guide))
    assert len(found) > 20
    for command in found:
        if command.startswith("python -m autograder") and not _elsewhere(command):
            continue
        place = _elsewhere(command)
        assert place and (CLONE / place).exists(), f"{guide}: no test runs {command!r}"


def test_both_guides_name_the_same_commands() -> None:
    first, second = ({" ".join(command.split()[:4]) for command in commands(guide)} for guide in GUIDES)
    assert {c for c in first ^ second if not re.search(r" (?:en|zh)$|EDITION", c)} == set()


def test_the_commands_of_the_guide_do_what_they_are_said_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "class"
    monkeypatch.setenv("MINIVLLM_CLASSROOM", str(root))  # as `create` does, and back again after the test
    root.mkdir()
    room = create(root, {"ada": {"edition": "en"}, "a-link": {"edition": "zh", "damage": "link"}})
    planner = tmp_path / "FILE.py"
    planner.write_text("def unified_token_plan(requests, token_budget):\n    return {}, token_budget\n")
    exchange, configured = tmp_path / "exchange", tmp_path / "jupyter"
    exchange.mkdir()
    exchange.chmod(0o777)
    configured.mkdir()
    (configured / "nbgrader_config.py").write_text(f"c = get_config()\nc.Exchange.root = {str(exchange)!r}\n")
    (tmp_path / "ROSTER.csv").write_text("id,first_name,last_name,email\nada,Ada,L,ada@example.org\n")
    assert run("grade", place=root).returncode == 0  # so that there are notes to settle
    read_answers(room, {"ada": {"read": {"q1_answer": 2}}})
    with reading(room.book.db_url) as session:
        [note] = [each.id for each in open_notes(session, LESSON)]
    names = {"STUDENT": "ada", "NAME": "ada", "学生": "ada", "ID": note, "TERM": "2026-spring"}
    names |= {"FILE.py": str(planner), "ANSWERS.jsonl": str(PUBLIC), "ROSTER.csv": str(tmp_path / "ROSTER.csv")}
    done = set()
    mine = [
        c for guide in GUIDES for c in commands(guide) if c.startswith("python -m autograder") and not _elsewhere(c)
    ]
    for command in sorted(dict.fromkeys(mine), key=lambda c: (" term " in c, " settle " in c)):
        words = [names.get(word, word) for word in shlex.split(command)[3:]]
        if words[0] == "settle" and "settle" in done:
            continue  # the note is settled
        ended = run(*words, place=root, JUPYTER_CONFIG_DIR=str(configured))
        assert ended.returncode == ENDS.get(command, 0), (command, ended)
        done.add(words[0])
    assert {
        "doctor",
        "grade",
        "report",
        "notes",
        "decisions",
        "settle",
        "try",
        "score-answers",
        "term",
        "roster",
    } <= done


def _elsewhere(command: str) -> str:
    return next((place for start, place in ELSEWHERE.items() if f"{command} ".startswith(f"{start} ")), "")


def test_a_command_that_is_not_there_is_noticed() -> None:
    ended = subprocess.run(
        ["python", "-m", "autograder", "no-such-command"], cwd=CLONE, capture_output=True, check=False
    )
    assert ended.returncode == 2
