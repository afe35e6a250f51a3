"""What an instructor packs for Colab: one edition, the wheel, and in every set-up cell where the wheel lies."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.lesson.notebooks import NAMES, ROOT
from tools.colab_bundle import pack, with_wheel
from tools.student_bundle import BundleError

PLACES = ["https://example.org/a b/minivllm.whl?x=1", "/content/drive/MyDrive/minivllm-0.1.0-py3-none-any.whl"]


def notebooks_in(bundle: Path) -> dict[str, Any]:
    with zipfile.ZipFile(bundle) as archive:
        return {
            Path(name).stem: json.loads(archive.read(name)) for name in archive.namelist() if name.endswith(".ipynb")
        }


@pytest.mark.parametrize("place", PLACES)
def test_every_notebook_knows_where_the_wheel_lies_and_is_else_as_released(tmp_path: Path, place: str) -> None:
    bundle = pack("zh", place, tmp_path)
    assert len([name for name in zipfile.ZipFile(bundle).namelist() if name.endswith(".whl")]) == 1
    notebooks = notebooks_in(bundle)
    assert sorted(notebooks) == NAMES
    for name, notebook in notebooks.items():
        released = json.loads((ROOT / "course" / "zh" / "lesson-2" / f"{name}.ipynb").read_text(encoding="utf-8"))
        pairs = zip(notebook["cells"], released["cells"], strict=True)
        ((packed, original),) = [(a, b) for a, b in pairs if a != b]
        expected = f'MINIVLLM_WHEEL = os.environ.get("MINIVLLM_WHEEL", {json.dumps(place)})'
        lines = (
            dict.fromkeys("".join(packed["source"]).splitlines()),
            dict.fromkeys("".join(original["source"]).splitlines()),
        )
        assert [line for line in lines[0] if line not in lines[1]] == [expected]


def test_without_a_place_the_notebooks_are_as_released(tmp_path: Path) -> None:
    for name, notebook in notebooks_in(pack("en", "", tmp_path)).items():
        assert notebook == json.loads(
            (ROOT / "course" / "en" / "lesson-2" / f"{name}.ipynb").read_text(encoding="utf-8")
        )


@pytest.mark.parametrize("place", ["minivllm.whl", "ftp://example.org/x.whl", "/srv/x.whl"])
def test_a_place_that_colab_cannot_reach_is_refused(tmp_path: Path, place: str) -> None:
    command = [sys.executable, str(ROOT / "tools" / "colab_bundle.py"), "en", "--wheel", place, "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith(f"colab_bundle: WHEEL is {place!r}: give an address (https://...) or a path in Drive")
    assert list(tmp_path.iterdir()) == []


def test_a_notebook_without_a_set_up_cell_is_refused() -> None:
    with pytest.raises(BundleError, match="the notebook has 0 set-up cells: run `make course`"):
        with_wheel(b'{"cells": []}', PLACES[0])
