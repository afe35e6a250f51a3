"""A reader's kernels: wrong ones are named and kept out of the engine; the rest goes on without Triton or weights."""

import importlib.util
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from minivllm.lesson.on_the_gpu import measure
from minivllm.lesson.on_the_gpu.in_engine import run_in_engine
from tests.conftest import unavailable
from tests.lesson.notebooks import BLANK, code_cells, printed, solved, source
from tests.lesson.on_the_gpu.student import NAME, answer, student

WRITES = [
    ([("slot < 0", "slot < -1")], "a slot of -1 is padding"),
    ([("slot < 0", "slot >= 0")], "the condition is the wrong way round"),
    ([("slot < 0", "True")], "every token was skipped"),
    ([("slot // BLOCK_SIZE", "slot")], "the slot was taken for a block id"),
    ([("slot % BLOCK_SIZE", "0")], "every token went to its block's first slot"),
    ([("slot % BLOCK_SIZE", "slot")], "the whole slot was taken for the offset"),
    ([("block = slot // BLOCK_SIZE", "block = slot % BLOCK_SIZE"), ("offset = slot % BLOCK_SIZE", "offset = slot // BLOCK_SIZE")], "block and offset are swapped"),
    ([("slot // BLOCK_SIZE", "slot // BLOCK_SIZE + 1")], "slot = block * BLOCK_SIZE + offset"),
    ([("slot // BLOCK_SIZE", "slots // BLOCK_SIZE")], "NameError: name 'slots' is not defined, at: block = slots // BLOCK_SIZE"),
    ([("slot // BLOCK_SIZE", "______")], BLANK),
    ([("@triton.jit\n", "")], "keep the line @triton.jit"),
]  # fmt: skip

TABLE = "tl.load(block_table_ptr + seq * table_width + start // BLOCK_SIZE)"
READS = [
    ([("key_position <= position", "key_position >= 0")], "no key is masked"),
    ([("key_position <= position", "key_position < position")], "a token sees its own key, too"),
    ([("key_position <= position", "key_position < tl.load(seq_lens_ptr + seq)")], "mask by position, not by the sequence's length"),
    ([("products * scale", "products")], "the scale is missing"),
    ([("products * scale", "products / scale")], "it is 1 / sqrt(head size) already"),
    ([("total * shrink", "total")], "total was not shrunk"),
    ([("weighted * shrink", "weighted")], "weighted was not shrunk"),
    ([("total * shrink + ", "")], "total was replaced, not added to"),
    ([("weighted * shrink + ", "")], "weighted was replaced, not added to"),
    ([("tl.exp(largest - new_largest)", "1.0")], "neither sum was shrunk"),
    ([("tl.exp(largest - new_largest)", "tl.exp(new_largest - largest)")], "shrink is tl.exp(largest - new_largest)"),
    ([(TABLE, "start // BLOCK_SIZE")], "the table says which it is"),
    ([(TABLE, "tl.load(block_table_ptr + seq * table_width)")], "every block was the sequence's first"),
    ([(TABLE, "tl.load(block_table_ptr + start // BLOCK_SIZE)")], "every sequence read the first row"),
    ([(TABLE, f"BLOCK_SIZE * {TABLE}")], "NaN was read from memory that holds none of this sequence's keys"),
    ([("products * scale", "______")], BLANK),
]  # fmt: skip

CHANGES = {"my_cache_write": WRITES, "my_paged_attention": READS}


def set_up() -> list[str]:
    """The set-up cells: the lesson, torch and Triton."""
    return [cell.source for cell in code_cells(solved(NAME, "en")) if "setup" in cell.metadata.get("tags", [])]


def run_cells(*cells: str, folder: Path, **environment: str) -> list[str]:
    """What each cell shows when a Jupyter kernel runs them one after another."""
    notebook: Any = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])  # type: ignore[no-untyped-call]
    client = NotebookClient(notebook, timeout=180, kernel_name="python3", allow_errors=True)
    client.execute(cwd=str(folder), env={**os.environ, **environment})
    return [printed(cell) for cell in notebook.cells]


def require_triton() -> None:
    if importlib.util.find_spec("triton") is None:
        unavailable("triton is not installed (it has wheels for Linux only), so the kernels of the notebook cannot run")


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[tuple[str, int], str]]:
    """What the checks say of every wrong kernel, all in one Jupyter kernel."""
    require_triton()
    cases = [(name, index) for name, rows in CHANGES.items() for index in range(len(rows))]
    fills = [student(name, *CHANGES[name][index][0]) for name, index in cases]
    checks = [f"check_{name.removeprefix('my_')}({name})" for name, _ in cases]
    cells = [*set_up(), *chain.from_iterable(zip(fills, checks, strict=True))]
    outputs = run_cells(*cells, folder=tmp_path_factory.mktemp("kernels"))[len(set_up()) + 1 :: 2]
    yield dict(zip(cases, outputs, strict=True))


@pytest.mark.parametrize(("name", "index"), [(name, i) for name, rows in CHANGES.items() for i in range(len(rows))])
def test_a_wrong_kernel_is_named(name: str, index: int, shown: dict[tuple[str, int], str]) -> None:
    assert CHANGES[name][index][1] in shown[name, index]


def test_wrong_kernels_leave_no_warnings(shown: dict[tuple[str, int], str]) -> None:
    assert not [text for text in shown.values() if "Warning" in text]


def test_a_wrong_kernel_does_not_get_into_the_engine(tmp_path: Path) -> None:
    require_triton()
    wrong = student("my_cache_write", ("slot // BLOCK_SIZE", "slot"))
    last = "run_in_engine(my_cache_write, my_paged_attention)"
    shown = run_cells(*set_up(), wrong, answer("my_paged_attention"), last, folder=tmp_path)[-1]
    assert shown.startswith("First make check_cache_write and check_paged_attention say ok")


def test_the_engine_keeps_its_torch_kernels_beside_the_interpreter(tmp_path: Path) -> None:
    """It asks the environment, and would run a whole model in the interpreter."""
    require_triton()
    ask = """
    import os
    from minivllm.kernels import kernels_for
    print(os.environ.get("TRITON_INTERPRET"), kernels_for("cpu").backend, type(softmax_row).__name__)
    """
    (kernel,) = [c.source for c in code_cells(source(NAME)) if "def softmax_row" in c.source]
    shown = run_cells(*set_up(), kernel, textwrap.dedent(ask), folder=tmp_path)
    assert shown[-1].split() == ["None", "torch", "InterpretedFunction"]


def test_without_triton_the_cells_say_so_in_one_sentence_and_the_others_run(tmp_path: Path) -> None:
    cells = [c.source for c in code_cells(solved(NAME, "en")) if not c.source.startswith(("smollm", "measure_"))]
    shown = dict(
        zip(cells, run_cells("import sys; sys.modules['triton'] = None", *cells, folder=tmp_path)[1:], strict=True)
    )
    assert not [text for text in shown.values() if re.search(r"^\w*Error: ", text, re.MULTILINE)]
    sentence = "There is no Triton here: it has wheels for Linux only."
    says_so = [code for code, text in shown.items() if sentence in text]
    assert len(says_so) == 6  # set-up, two small kernels, two checks, the engine
    assert shown["check_prepare_inputs(prepare_inputs)"].startswith("prepare_inputs: ok")


def test_triton_imported_too_early_is_told(tmp_path: Path) -> None:
    require_triton()
    shown = run_cells(
        "import triton.language", *set_up(), "double = triton.jit(print); double[(1,)]()", folder=tmp_path
    )
    assert all("restart the kernel and run from the top" in text for text in shown[-2:])


def test_without_weights_the_measuring_cells_say_so_in_one_sentence(tmp_path: Path) -> None:
    cells = [c.source for c in code_cells(source(NAME)) if c.source.startswith(("smollm", "measure_"))]
    nothing = {"MINIVLLM_CACHE": str(tmp_path), "PIP_NO_INDEX": "1"}
    first, *others = run_cells(set_up()[0], *cells, folder=tmp_path, **nothing)[1:]
    assert "is not in" in first and first.rstrip().endswith(measure.NO_MODEL)
    assert [text.strip() for text in others] == [measure.NO_MODEL] * 4


COMPILE = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile
import notebook_kernels as kernels

pointers = {"slot_mapping_ptr": "*i64", "block_table_ptr": "*i32", "seq_lens_ptr": "*i32", "query_start_loc_ptr": "*i32"}
constants = {"HEAD_SIZE": 16, "BLOCK_SIZE": 4, "NUM_KV_HEADS": 2, "NUM_HEADS": 4, "GROUP_SIZE": 2, "BLOCK": 8}
for name in ("double", "softmax_row", "my_cache_write", "my_paged_attention"):
    kernel = getattr(kernels, name)
    used = {n: v for n, v in constants.items() if n in kernel.arg_names}
    kinds = {"scale": "fp32"}
    signature = {n: "constexpr" if n in used else pointers.get(n, "*fp32" if n.endswith("_ptr") else kinds.get(n, "i32")) for n in kernel.arg_names}
    for capability in (75, 80, 90):
        compile(ASTSource(kernel, signature, used), target=GPUTarget("cuda", capability, 32))
print("compiled")
"""


def test_the_kernels_of_the_solved_notebook_compile_for_a_gpu(tmp_path: Path) -> None:
    require_triton()
    kernels = [c.source for c in code_cells(solved(NAME, "en")) if "@triton.jit" in c.source]
    definitions = [re.split(r"\n\n\n(?=\w)", code)[0] for code in kernels]
    text = "import triton\nimport triton.language as tl\n\n\n" + "\n\n\n".join(definitions)
    (tmp_path / "notebook_kernels.py").write_text(text, encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    run = subprocess.run(
        [sys.executable, "-c", COMPILE, str(tmp_path)],
        env={**environment, "TRITON_CACHE_DIR": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.stdout.strip() == "compiled", run.stderr


def test_run_in_engine_asks_for_kernels(capsys: pytest.CaptureFixture[str]) -> None:
    run_in_engine(3, None)
    assert capsys.readouterr().out.startswith("my_cache_write is int, no Triton kernel")
