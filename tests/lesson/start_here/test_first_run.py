"""What 0-start-here starts with: this machine, a model or one sentence without it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from minivllm.lesson.start_here.first_run import doctor, needs_weights
from minivllm.model.errors import ModelError
from tests.lesson.notebooks import code_cells, execute, printed, solved
from tests.lesson.start_here.notebook import NAME


def test_the_doctor_speaks_in_the_notebook(capsys: pytest.CaptureFixture[str]) -> None:
    doctor()
    told = capsys.readouterr().out
    assert re.search(r"^ok Python", told) and re.search(r"^(ok|--) weights", told, re.MULTILINE)


def test_missing_weights_end_the_block_with_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    with needs_weights():
        raise ModelError("They are not here: go online once.")
    told = capsys.readouterr().out
    assert told == "This cell needs the model's weights, the other cells don't. They are not here: go online once.\n"


def test_any_other_error_in_the_block_is_raised() -> None:
    with pytest.raises(ValueError, match="mine"), needs_weights():
        raise ValueError("mine")


def test_without_weights_and_network_every_cell_runs_and_the_players_show_the_demonstration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINIVLLM_CACHE", str(tmp_path / "empty"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    cells = {c.source: c for c in code_cells(execute(solved(NAME, "en"), tmp_path))}
    assert "-- weights" in printed(cells["doctor()"])
    loading = next(c for text, c in cells.items() if text.startswith("from minivllm import LLM"))
    told = re.sub(r"^Output\(\)$", "", printed(loading), flags=re.MULTILINE).strip()
    assert told.startswith("This cell needs the model's weights, the other cells don't.") and "\n" not in told
    assert "go online once, or give the path" in told
    assert printed(cells["timeline(recording)"]).startswith("2 requests over 6 steps. A: prefill 0")


def test_importing_the_lesson_loads_no_torch_matplotlib_or_widgets() -> None:
    code = (
        "import sys; from minivllm.lesson import *; print(*{'torch', 'matplotlib', 'ipywidgets'} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
