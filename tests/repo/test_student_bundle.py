"""What a student gets: notebooks that were never run, the wheel, a start page; no answer, hidden test or reference."""

import gzip
import io
import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lesson.notebooks import NAMES
from tools.student_bundle import EDITIONS, ROOT, BundleError, pack, refuse_worked_notebook

SECRET_REGION = re.compile(r"### BEGIN (SOLUTION|HIDDEN TESTS)\n(.*?)### END \1", re.DOTALL)
INSTRUCTOR_WORDS = (
    "BEGIN SOLUTION",
    "END SOLUTION",
    "HIDDEN TESTS",
    "import autograder",
    "from autograder",
    "autograder.",
)


def telling_lines(text: str, shortest: int) -> set[str]:
    """Lines that give something away wherever they turn up: `shortest` characters at least, no import, comment or docstring."""
    lines = {line.strip() for line in text.splitlines()}
    return {
        line for line in lines if len(line) >= shortest and not line.startswith(("import ", "from ", "#", "@", '"""'))
    }


def secrets() -> dict[str, str]:
    """Every line of a solution, a hidden test or a reference that no public part of the course shows, and where it stands."""
    found: dict[str, str] = {}
    # Practice rebuilds parts of the engine, which every student has.
    engine = [path for part in ("core", "kernels") for path in (ROOT / "src" / "minivllm" / part).rglob("*.py")]
    public = "".join(path.read_text(encoding="utf-8") for path in engine)
    for path in sorted((ROOT / "solutions").rglob("*.md")):
        text = path.read_text(encoding="utf-8")
        public += SECRET_REGION.sub("", text)
        for match in SECRET_REGION.finditer(text):
            found |= dict.fromkeys(telling_lines(match.group(2), shortest=20), path.name)
    # Shorter lines of the reference are plumbing that any module may have.
    for path in sorted((ROOT / "autograder" / "judging" / "reference").rglob("*.py")):
        found |= dict.fromkeys(
            telling_lines(path.read_text(encoding="utf-8"), shortest=40), path.relative_to(ROOT).as_posix()
        )
    return {line: where for line, where in found.items() if line not in public}


def texts(data: bytes, inside: str = "") -> Iterator[tuple[str, str]]:
    """Name and text of every file in a zip, and of every file in a wheel inside it; a notebook as its cells, unescaped."""
    with zipfile.ZipFile(io.BytesIO(data)) as bundle:
        for name in bundle.namelist():
            content = bundle.read(name)
            if name.endswith(".whl"):
                yield from texts(content, f"{name}!")
                continue
            text = (gzip.decompress(content) if name.endswith(".gz") else content).decode("utf-8")
            if name.endswith(".ipynb"):
                text = "\n".join([text, *("".join(cell["source"]) for cell in json.loads(text)["cells"])])
            yield inside + name, text


@pytest.fixture(scope="module", params=EDITIONS)
def edition(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def bundle(edition: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pack(edition, tmp_path_factory.mktemp(f"bundle-{edition}"))


def test_it_holds_the_editions_notebooks_the_wheel_the_pins_and_a_start_page(bundle: Path, edition: str) -> None:
    course = ROOT / "course" / edition
    top = f"minivllm-student-{edition}"
    names = set(zipfile.ZipFile(bundle).namelist())
    (wheel,) = {name for name in names if name.endswith(".whl")}
    expected = {f"{top}/{path.relative_to(course).as_posix()}" for path in course.rglob("*.ipynb")}
    assert f"{top}/lesson-2/1-budget-planner.ipynb" in expected
    assert names == expected | {wheel, f"{top}/constraints.txt", f"{top}/START-HERE.html"}


def test_there_are_secrets_to_look_for() -> None:
    assert 'need = request["total_with_spec"] - request["computed"]' in secrets()
    assert any(where.startswith("autograder/judging/reference/") for where in secrets().values())
    assert any(re.search("[一-鿿]", line) for line in secrets()), "the Chinese model answer of Q1"


def test_it_holds_no_line_of_a_solution_a_hidden_test_or_the_autograder(bundle: Path) -> None:
    secret = secrets()
    leaks = [
        f"{name}: {line!r} of {secret[line]}"
        for name, text in texts(bundle.read_bytes())
        for line in secret
        if line in text
    ]
    assert leaks == []


def test_an_answer_would_be_found_in_a_notebook(tmp_path: Path) -> None:
    notebook = json.dumps(
        {"cells": [{"source": ['    need = request["total_with_spec"] - request["computed"]\n', "    take = 1"]}]}
    )
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as leaky:
        leaky.writestr("x.ipynb", notebook)
    ((_, text),) = texts((tmp_path / "x.zip").read_bytes())
    assert [line for line in secrets() if line in text] == ['need = request["total_with_spec"] - request["computed"]']


def test_it_holds_no_mark_of_the_instructors_version(bundle: Path) -> None:
    found = [
        f"{name}: {word}" for name, text in texts(bundle.read_bytes()) for word in INSTRUCTOR_WORDS if word in text
    ]
    assert found == []


def test_no_file_in_it_bears_the_name_of_an_instructors_file(bundle: Path) -> None:
    parts = {part for name, _ in texts(bundle.read_bytes()) for part in re.split(r"[/!]", name)}
    assert not parts & {"autograder", "solutions", "reference", "tests", "tools", "benchmarks", "gradebook.db", ".git"}


def test_its_notebooks_were_never_run(bundle: Path) -> None:
    with zipfile.ZipFile(bundle) as archive:
        notebooks = [json.loads(archive.read(name)) for name in archive.namelist() if name.endswith(".ipynb")]
    cells = [cell for notebook in notebooks for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert cells
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in cells)


def test_the_start_page_is_in_the_editions_language_and_names_the_wheel(bundle: Path, edition: str) -> None:
    with zipfile.ZipFile(bundle) as archive:
        page = archive.read(f"minivllm-student-{edition}/START-HERE.html").decode("utf-8")
        (wheel,) = [Path(name).name for name in archive.namelist() if name.endswith(".whl")]
    assert wheel in page
    assert "{wheel}" not in page
    assert f'<html lang="{edition}' in page
    assert bool(re.search("[一-鿿]", page)) == (edition == "zh")
    assert [name for name in NAMES if f"<code>{name}</code>" not in page] == []
    for word in ("JupyterLab", "VS Code", "Colab", "pip install", "check-submission"):
        assert word in page


def test_the_same_tree_gives_the_same_bytes(bundle: Path, edition: str, tmp_path: Path) -> None:
    assert pack(edition, tmp_path).read_bytes() == bundle.read_bytes()


@pytest.mark.parametrize(
    ("cell", "reason"),
    [
        ({"cell_type": "code", "source": "1", "outputs": [{"output_type": "stream"}]}, "outputs"),
        ({"cell_type": "code", "source": "### BEGIN SOLUTION", "outputs": []}, "BEGIN SOLUTION"),
        ({"cell_type": "code", "source": "### BEGIN HIDDEN TESTS", "outputs": []}, "BEGIN HIDDEN TESTS"),
    ],
)
def test_a_notebook_that_was_worked_in_is_refused(tmp_path: Path, cell: dict[str, object], reason: str) -> None:
    path = tmp_path / "1-budget-planner.ipynb"
    path.write_text(json.dumps({"cells": [cell]}))
    with pytest.raises(BundleError, match=f"1-budget-planner.ipynb holds {reason}: run `make course`"):
        refuse_worked_notebook(path)


def test_an_unknown_edition_is_refused() -> None:
    command = [sys.executable, str(ROOT / "tools" / "student_bundle.py"), "fr"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "invalid choice: 'fr'" in done.stderr
    assert "Traceback" not in done.stderr
