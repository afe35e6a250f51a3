"""Imports run one way, as the map in README.md says: in the engine, among the lesson's folders, in the autograder."""

import subprocess
from pathlib import Path

import pytest

from tests.repo.imports import Import, Layers, imports_across, units, upward

ROOT = Path(__file__).resolve().parents[2]

MINIVLLM: Layers = (
    ("errors",),
    ("dependencies", "kv_bill", "kv_cache_interface", "request", "submission"),
    ("config", "kernels"),
    ("core", "model"),
    ("doctor", "engine", "observe"),
    (".",),
    ("bench",),
    ("viz",),
    ("lesson",),
    ("cli",),
    ("__main__",),
)
LESSON: Layers = (
    ("encoding",),
    ("outcome",),
    ("common",),
    ("start_here",),
    ("budget_planner",),
    ("prefix_match",),
    ("allocate_slots",),
    ("preemption",),
    ("on_the_gpu",),
    ("against", "pictures", "predictions"),
    (".",),
)
AUTOGRADER: Layers = (
    (".",),
    ("paths",),
    ("config", "disk", "swap"),
    ("intake",),
    ("running",),
    ("judging",),
    ("gradebook",),
    ("release",),
    ("classroom",),
    ("reports",),
    ("nbgrader_config",),
    ("commands",),
    ("trail",),
    ("cli",),
    ("__main__",),
)
PACKAGES = {"minivllm": MINIVLLM, "minivllm.lesson": LESSON, "autograder": AUTOGRADER}


def folder_of(package: str) -> Path:
    return ROOT / ("" if package == "autograder" else "src") / package.replace(".", "/")


@pytest.mark.parametrize("package", PACKAGES)
def test_every_import_leads_down(package: str) -> None:
    imports = imports_across(folder_of(package), package)
    assert len(imports) > 20  # they were found at all
    assert upward(imports, PACKAGES[package]) == []


@pytest.mark.parametrize("package", PACKAGES)
def test_every_module_and_folder_has_its_layer(package: str) -> None:
    named = [unit for layer in PACKAGES[package] for unit in layer]
    assert len(named) == len(set(named))
    assert units(folder_of(package)) - set(named) == set()


def test_the_core_sees_request_and_config_alone() -> None:
    seen = {it.imported for it in imports_across(folder_of("minivllm"), "minivllm") if it.importer == "core"}
    assert seen == {"config", "kv_cache_interface", "request"}


def test_observe_sees_no_engine_and_viz_no_lesson() -> None:
    imports = imports_across(folder_of("minivllm"), "minivllm")
    seen = {unit: {it.imported for it in imports if it.importer == unit} for unit in ("observe", "viz")}
    assert "core" in seen["observe"] and not seen["observe"] & {"engine", "model", "kernels", "lesson", "viz"}
    assert "observe" in seen["viz"] and "lesson" not in seen["viz"]


@pytest.mark.parametrize(
    "line",
    [
        "from top.high.thing import name",
        "from top.high import thing",
        "from top import high",
        "import top.high.thing as other",
        "from ..high import thing",
        "from .. import high",
        "def late():\n    import top.high.thing",
        "if TYPE_CHECKING:\n    from top.high import thing",
    ],
)
def test_an_import_that_leads_up_is_found_however_it_is_written(line: str, tmp_path: Path) -> None:
    for name, source in {"high": "", "low": line}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").touch()
        (tmp_path / name / "thing.py").write_text(source, encoding="utf-8")
    imports = imports_across(tmp_path, "top")
    assert imports == [Import(f"low/thing.py:{len(line.splitlines())}", "low", "high")]
    assert upward(imports, (["low"], ["high"])) == [f"{imports[0].where}: low imports high"]
    assert upward(imports, (["high"], ["low"])) == []


def test_git_holds_every_module() -> None:
    """A pattern of .gitignore that also fits a folder of the code loses what is new in it."""
    command = ["git", "ls-files", "--others", "--ignored", "--exclude-standard", "--", "*.py"]
    ignored = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True).stdout.splitlines()
    assert [
        name for name in ignored if name.split("/")[0] in ("autograder", "src", "tests", "tools", "benchmarks")
    ] == []
