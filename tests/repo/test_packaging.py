"""What is installed: the wheel holds minivllm alone, and its core needs no torch."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tools.student_bundle import build_wheel

ROOT = Path(__file__).resolve().parents[2]
CORE = sorted((ROOT / "src" / "minivllm" / "core").rglob("*.py"))
CORE_MODULES = [
    ".".join(path.relative_to(ROOT / "src").with_suffix("").parts).removesuffix(".__init__") for path in CORE
]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


def test_the_wheel_holds_minivllm_and_its_metadata_only(wheel: Path) -> None:
    tops = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"minivllm"}


def test_the_wheel_holds_every_module_of_src(wheel: Path) -> None:
    source = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src").rglob("*.py")}
    assert source <= set(zipfile.ZipFile(wheel).namelist())
    assert "minivllm/py.typed" in zipfile.ZipFile(wheel).namelist()


def test_an_installed_wheel_imports_without_the_clone(wheel: Path, tmp_path: Path) -> None:
    target = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(target)
    code = f"import sys; sys.path.insert(0, {str(target)!r}); import minivllm; print(minivllm.__version__, minivllm.__file__)"
    # -I leaves the working folder and PYTHONPATH out; the wheel comes before the editable clone on the path.
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    version, where = done.stdout.split(maxsplit=1)
    assert version == wheel.name.split("-")[1]
    assert Path(where.strip()).is_relative_to(target)


def test_core_has_modules() -> None:
    assert "minivllm.core.sched.scheduler" in CORE_MODULES


@pytest.mark.parametrize("module", ["minivllm", "minivllm.config", "minivllm.request", *CORE_MODULES])
def test_the_core_imports_where_torch_is_missing(module: str) -> None:
    # None in sys.modules makes `import torch` raise ImportError, as on a machine without it.
    code = f"import sys; sys.modules['torch'] = None; import {module}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_clone_sees_the_autograder_through_the_editable_install(tmp_path: Path) -> None:
    code = "import autograder; print(autograder.__file__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert Path(done.stdout.strip()) == ROOT / "autograder" / "__init__.py"
