"""make: refuses a Python that it can't use, does nothing the second time, and its CI script names what the tests need."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.requires_debian("make")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree with what the set-up reads, and no .venv."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def make(tree: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environ = {
        key: value for key, value in os.environ.items() if key not in {"MAKEFLAGS", "MAKELEVEL", "MFLAGS", "PYTHON"}
    }
    return subprocess.run(["make", *arguments], cwd=tree, env=environ, capture_output=True, text=True, check=False)


def python_that_is(tree: Path, version: tuple[int, int]) -> Path:
    """A command that runs this Python and has it believe that it is `version`."""
    command = tree / f"python{version[0]}.{version[1]}"
    command.write_text(
        f'#!/bin/sh\n[ "$1" = -c ] || exit 1\nexec {sys.executable} -c "import sys; sys.version_info = {(*version, 0)}; $2"\n'
    )
    command.chmod(0o755)
    return command


@pytest.mark.parametrize("version", [(3, 10), (3, 14)])
def test_an_unsupported_python_is_refused_in_one_sentence(tree: Path, version: tuple[int, int]) -> None:
    python = python_that_is(tree, version)
    done = make(tree, "setup", f"PYTHON={python}")
    assert done.returncode == 2
    assert f"minivllm needs Python 3.11, 3.12 or 3.13, and '{python}' is not one of them" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tree / ".venv").exists()


def test_a_python_that_does_not_exist_is_refused_in_the_same_sentence(tree: Path) -> None:
    done = make(tree, "setup", "PYTHON=no-such-python")
    assert done.returncode == 2
    assert "'no-such-python' is not one of them: install one, or name it with PYTHON=" in done.stderr


def test_the_second_set_up_does_nothing_until_the_pins_change(tree: Path) -> None:
    assert make(tree, "--question", "setup").returncode == 1
    (tree / ".venv").mkdir()
    (tree / ".venv" / ".set-up").touch()
    assert make(tree, "--question", "setup").returncode == 0
    newer = (tree / ".venv" / ".set-up").stat().st_mtime + 1
    os.utime(tree / "constraints.txt", (newer, newer))
    assert make(tree, "--question", "setup").returncode == 1


@pytest.mark.parametrize("target", ["lab", "test", "course", "student", "colab", "answers", "clean"])
def test_a_target_says_in_one_line_what_it_does(tree: Path, target: str) -> None:
    (tree / ".venv").mkdir()
    (tree / ".venv" / ".set-up").touch()
    done = make(tree, "--dry-run", target)
    lines = [line for line in done.stdout.splitlines() if line.startswith("echo ")]
    assert len(lines) == 1


def test_lab_passes_its_arguments_on(tree: Path) -> None:
    (tree / ".venv").mkdir()
    (tree / ".venv" / ".set-up").touch()
    done = make(tree, "--dry-run", "lab", "ARGS=--no-browser --port 8899")
    assert "jupyter lab --LabApp.default_url=/lab/tree/course --no-browser --port 8899" in done.stdout


def test_ci_installs_every_debian_package_that_a_test_asks_for() -> None:
    (packages,) = re.findall(r'^packages="(.*)"$', (ROOT / ".ci" / "run").read_text(), flags=re.MULTILINE)
    asked: set[str] = set()
    for path in (ROOT / "tests").rglob("test_*.py"):
        # At the start of a line or indented by a class; test_conftest.py writes a test of its own into a string.
        for names in re.findall(
            r"^(?:@|    @|pytestmark = )pytest\.mark\.requires_debian\((.*?)\)", path.read_text(), re.MULTILINE
        ):
            asked |= set(re.findall(r'"(.*?)"', names))
    assert asked - {"bubblewrap"} <= set(packages.split())
    assert asked >= {"git", "make"}


def test_lab_opens_for_root_too_as_in_a_container(tmp_path: Path) -> None:
    for uid, expected in ((0, True), (1000, False)):
        fake = tmp_path / str(uid) / "id"
        fake.parent.mkdir()
        fake.write_text(f"#!/bin/sh\necho {uid}\n")
        fake.chmod(0o755)
        environment = os.environ | {"PATH": f"{fake.parent}{os.pathsep}{os.environ['PATH']}"}
        done = subprocess.run(
            ["make", "-n", "lab"], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
        )
        assert ("--allow-root" in done.stdout) == expected
