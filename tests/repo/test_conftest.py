"""A test that needs a Debian package: a user is told which, CI fails."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NEEDS_CHROMIUM = """
import pytest

@pytest.mark.requires_debian("chromium", "bubblewrap")
def test_page():
    assert True
"""


def run_pytest(folder: Path, ci: bool, path: str, source: str = NEEDS_CHROMIUM) -> subprocess.CompletedProcess[str]:
    """Run `source` under the repository's own conftest and settings, with only `path` on PATH."""
    shutil.copy(ROOT / "tests" / "conftest.py", folder)
    shutil.copy(ROOT / "pyproject.toml", folder)
    (folder / "test_page.py").write_text(source)
    environ = {key: value for key, value in os.environ.items() if key != "CI"} | {"PATH": path}
    if ci:
        environ["CI"] = "true"
    command = [sys.executable, "-m", "pytest", "test_page.py"]
    return subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, check=False)


def test_on_a_users_machine_the_skip_names_the_missing_packages(tmp_path: Path) -> None:
    done = run_pytest(tmp_path, ci=False, path=str(tmp_path))
    assert done.returncode == 0
    assert "missing Debian package: apt-get install chromium bubblewrap" in done.stdout
    assert "1 skipped" in done.stdout


def test_with_ci_the_same_test_fails(tmp_path: Path) -> None:
    done = run_pytest(tmp_path, ci=True, path=str(tmp_path))
    assert done.returncode == 1
    assert "missing Debian package: apt-get install chromium bubblewrap" in done.stdout
    assert "1 error" in done.stdout
    assert "1 skipped" not in done.stdout


@pytest.mark.parametrize("ci", [False, True])
def test_where_the_packages_are_the_test_runs(tmp_path: Path, ci: bool) -> None:
    for command in ("chromium", "bwrap"):
        (tmp_path / command).touch(mode=0o755)
    done = run_pytest(tmp_path, ci=ci, path=str(tmp_path))
    assert done.returncode == 0
    assert "1 passed" in done.stdout


def test_a_misspelt_package_is_an_error_and_no_skip(tmp_path: Path) -> None:
    done = run_pytest(tmp_path, ci=False, path=str(tmp_path), source=NEEDS_CHROMIUM.replace("bubblewrap", "bublewrap"))
    assert done.returncode == 1
    assert "KeyError: 'bublewrap'" in done.stdout
