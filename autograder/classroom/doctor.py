"""What grading needs of this machine, what is there, and what to do about the rest."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

NEWEST = 13
"""The newest Python that the course supports is 3.13."""
GRADE = 'pip install -c constraints.txt -e ".[lab,grade]"'


@dataclass(frozen=True)
class Check:
    """A line of the doctor. Without what is `needed`, nothing can be graded."""

    name: str
    ok: bool
    told: str
    needed: bool = True


def checks() -> list[Check]:
    found = [_package("nbgrader"), _package("jupyterlab", needed=False), _package("bleach")]
    if not all(check.ok for check in found if check.needed):
        return found
    return [_python(), *found, _alembic(), _sandbox(), *_rubrics(), *_class(), _formgrader(), _mathjax()]


def _python() -> Check:
    """Students may write what their own, newer Python understands."""
    mine = sys.version_info[:2]
    newer = [f"python3.{minor}" for minor in range(NEWEST, mine[1], -1)]
    found = next((name for name in newer if _runs(name)), "")
    told = f"{mine[0]}.{mine[1]}"
    if found:
        told += f"; {found} is there too, and reads newer syntax as it is: make setup PYTHON={found} with a fresh .venv"
    elif newer:
        told += f"; what is new in Python {mine[0]}.{mine[1] + 1} and later is rewritten where that can be done"
    return Check("python", True, told, needed=False)


def _runs(python: str) -> bool:
    return shutil.which(python) is not None and not subprocess.run([python, "-c", ""], capture_output=True).returncode


def _package(name: str, needed: bool = True) -> Check:
    try:
        return Check(name, True, version(name), needed)
    except PackageNotFoundError:
        return Check(name, False, f"not installed: {GRADE}", needed)


def _alembic() -> Check:
    """nbgrader calls it by name when it makes a gradebook."""
    found = shutil.which("alembic", path=str(Path(sys.executable).parent)) or shutil.which("alembic")
    return Check("alembic", found is not None, found or f"not found beside {sys.executable}: {GRADE}")


def _sandbox() -> Check:
    from autograder.running.sandbox import REMEDY, sandbox

    box = sandbox()
    if box.boxed:
        return Check("sandbox", True, "bubblewrap")
    return Check("sandbox", False, f"{box.lacks}: {REMEDY}; grading refuses without it")


def _rubrics() -> Iterator[Check]:
    from autograder.judging.rubric.patterns import RubricError
    from autograder.judging.rubric.points import QUESTIONS
    from autograder.judging.rubric.rubric import load

    for question in QUESTIONS:
        try:
            load(question)
        except RubricError as error:
            yield Check("rubric", False, str(error))
            return
    yield Check("rubric", True, ", ".join(QUESTIONS))


def _class() -> Iterator[Check]:
    from autograder.classroom import checks
    from autograder.config import clone_config

    try:
        config = clone_config()
    except OSError as error:
        yield Check("nbgrader", False, str(error))
        return
    yield checks.course(config)
    yield from checks.gradebook(config)
    yield from checks.disks(config)


def _formgrader() -> Check:
    from jupyter_core.paths import jupyter_config_path
    from jupyter_server.extension.config import ExtensionConfigManager

    manager: Any = ExtensionConfigManager(read_config_path=jupyter_config_path())
    enabled = manager.get_jpserver_extensions()
    if any(on and name.startswith("nbgrader") for name, on in enabled.items()):
        return Check("formgrader", True, "enabled", needed=False)
    remedy = "jupyter server extension enable --sys-prefix --py nbgrader"
    return Check("formgrader", False, f"not enabled in Jupyter: {remedy}", needed=False)


def _mathjax() -> Check:
    """Without it the formgrader's pages wait for a server in the internet, and scrolling to an answer fails."""
    if importlib.util.find_spec("jupyter_server_mathjax"):
        return Check("MathJax", True, "local: the formgrader works offline", needed=False)
    return Check("MathJax", False, f"from the internet only, so no formgrader offline: {GRADE}", needed=False)
