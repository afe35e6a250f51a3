"""The first code cell of every notebook: silent where minivllm is, elsewhere it installs the wheel and little else."""

import functools
import http.server
import re
import runpy
import sys
import threading
import types
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest

from autograder.release.course import SET_UP_CELL
from minivllm.dependencies import KEPT, missing
from tests.lesson.clean_environment import CleanEnvironment, python_312
from tests.lesson.notebooks import LANGUAGES, NAMES, code_cells, printed, released
from tools.answers import answered
from tools.colab_bundle import with_wheel
from tools.student_bundle import build_wheel

WITHOUT_TORCH = [name for name in NAMES if name[0] in "1234"]
Cell = dict[str, Callable[..., Any]]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def address(wheel: Path) -> Iterator[str]:
    """Where the wheel can be fetched over HTTP."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=wheel.parent)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/{wheel.name}"
        server.shutdown()


@pytest.fixture
def cell() -> Cell:
    """The functions of the set-up cell; here minivllm is installed, so that the cell itself does nothing."""
    return runpy.run_path(str(SET_UP_CELL))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("language", LANGUAGES)
def test_every_notebook_begins_with_it_folded_and_tagged(name: str, language: str) -> None:
    first = code_cells(released(name, language))[0]
    assert first.source == SET_UP_CELL.read_text(encoding="utf-8").rstrip()
    assert first.metadata == {"tags": ["setup"], "jupyter": {"source_hidden": True}, "cellView": "form"}


def test_it_is_silent_where_minivllm_is_installed(cell: Cell, capfd: pytest.CaptureFixture[str]) -> None:
    assert capfd.readouterr() == ("", "")
    assert missing() == []


def test_an_address_that_gives_nothing_is_told_in_one_sentence(cell: Cell, address: str) -> None:
    for place in (f"{address}x", "http://127.0.0.1:1/x.whl", "nonsense://x"):
        with pytest.raises(RuntimeError, match=r"gives no wheel .*: ask your instructor for the right address$"):
            cell["fetch_wheel"](place)


def test_a_drive_that_is_not_mounted_is_told_in_one_sentence(cell: Cell) -> None:
    with pytest.raises(RuntimeError, match=r"^Drive is not mounted, so .* is not there: Files > Mount Drive"):
        cell["fetch_wheel"]("/content/drive/MyDrive/minivllm-0.1.0-py3-none-any.whl")


def test_a_path_without_a_file_is_told_in_one_sentence(cell: Cell, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"^there is no file .*x.whl: correct MINIVLLM_WHEEL in this cell"):
        cell["fetch_wheel"](str(tmp_path / "x.whl"))


def test_elsewhere_than_on_colab_it_names_the_wheel_instead_of_asking_for_a_file(cell: Cell) -> None:
    with pytest.raises(RuntimeError, match=r"^minivllm is not installed: pip install the wheel that came with"):
        cell["fetch_wheel"]("")


def test_on_colab_it_asks_for_the_file(cell: Cell, wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """google.colab.files exists on Colab alone: here its place is taken by what its upload() returns there."""
    for answer, expected in (({wheel.name: wheel.read_bytes()}, wheel.read_bytes()), ({}, None)):
        files = types.SimpleNamespace(upload=lambda answer=answer: answer)
        monkeypatch.setitem(sys.modules, "google.colab.files", files)
        monkeypatch.setitem(sys.modules, "google.colab", types.ModuleType("google.colab"))
        monkeypatch.setitem(sys.modules, "google", types.ModuleType("google"))
        if expected:
            assert cell["fetch_wheel"]("") == expected
        else:
            with pytest.raises(RuntimeError, match=r"^no file was chosen: run this cell again"):
                cell["fetch_wheel"]("")


def other_zip(folder: Path) -> bytes:
    with zipfile.ZipFile(folder / "x.zip", "w") as archive:
        archive.writestr("numpy-2.0.0.dist-info/METADATA", "")
    return (folder / "x.zip").read_bytes()


def test_a_file_that_is_not_the_wheel_is_told_in_one_sentence(cell: Cell, wheel: Path, tmp_path: Path) -> None:
    for data in (b"", b"<!doctype html>", wheel.read_bytes()[:5000], other_zip(tmp_path)):
        with pytest.raises(RuntimeError, match=r"^this file is not minivllm's wheel: take minivllm-"):
            cell["install_wheel"](data)


def prepared(name: str, place: str) -> Any:
    """The notebook as a student who answered everything has it, with the wheel's place in its set-up cell."""
    notebook = with_wheel(nbformat.writes(answered(name, "en")).encode(), place)  # type: ignore[no-untyped-call]
    return nbformat.reads(notebook.decode(), as_version=4)  # type: ignore[no-untyped-call]


def run_all(environment: CleanEnvironment, names: list[str], address: str) -> None:
    """Run the notebooks; the first one installs, the others find minivllm."""
    for index, name in enumerate(names):
        cells = code_cells(environment.run(prepared(name, address)))
        assert printed(cells[0]) == ("minivllm is installed.\n" if index == 0 else "")
        assert not [cell.source for cell in cells if any(o.get("name") == "stderr" for o in cell.outputs)]
    assert environment.says("import minivllm; print(minivllm.__file__)").startswith(str(environment.site))
    assert environment.says("import ipywidgets; print(ipywidgets.__version__)") == "7.7.1"
    assert environment.says("from minivllm.dependencies import missing; print(missing())") == "[]"
    for absent in ("nbgrader", "autograder"):
        assert environment.says(f"import importlib.util; print(importlib.util.find_spec('{absent}'))") == "None"


@pytest.mark.requires_network
@pytest.mark.parametrize(
    "names",
    [
        pytest.param([name for name in NAMES if name[0] in "01234"], id="0 to 4"),
        pytest.param([name for name in NAMES if name[0] == "5"], id="5", marks=pytest.mark.full),
    ],
)
def test_the_notebooks_run_where_only_the_wheel_is_installed(names: list[str], tmp_path: Path, address: str) -> None:
    environment = CleanEnvironment(tmp_path, sys.executable, borrow=True)
    run_all(environment, names, address)
    own = {re.split(r"[-.]", path.name)[0].lower() for path in environment.site.iterdir()}
    assert "gguf" in own, "what the machine lacks is installed"
    assert not own & {"torch", "triton", "numpy"}, "what it has is left alone"


@pytest.mark.requires_network
def test_the_notebooks_without_a_model_run_on_python_3_12_with_the_wheel_alone(tmp_path: Path, address: str) -> None:
    """torch is not fetched for this: it stays missing, as the set-up cell leaves it."""
    python = python_312()
    if python is None:
        pytest.skip("this machine has no Python 3.12, which Colab has: the notebooks did not run on it")
    environment = CleanEnvironment(tmp_path, python, borrow=False)
    run_all(environment, WITHOUT_TORCH, address)
    for name in set(KEPT) - {"numpy", "ipywidgets"}:
        assert environment.says(f"import importlib.util; print(importlib.util.find_spec('{name}'))") == "None"
