"""The notebook 5-on-the-gpu: wrong kernels are named, the rest goes on without Triton or weights, the findings wait for a person."""

import importlib.util
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from nbgrader.api import Gradebook
from nbgrader.apps import NbGraderAPI
from traitlets.config import Config

from autograder.paths import CLONE
from autograder.release.course import configure, edition_of, write_notebook
from minivllm.lesson.on_the_gpu import measure
from minivllm.lesson.on_the_gpu import questions as on_the_gpu
from minivllm.lesson.on_the_gpu.batch_step import batch_step
from minivllm.lesson.on_the_gpu.check_kept_tokens import check_kept_tokens
from minivllm.lesson.on_the_gpu.check_prepare_inputs import check_prepare_inputs
from minivllm.lesson.on_the_gpu.in_engine import run_in_engine
from minivllm.lesson.predictions import QUESTIONS
from tests.conftest import unavailable
from tests.lesson.notebooks import LANGUAGES, code_cells, printed, prose, solved, source

NAME = "5-on-the-gpu"
BLANK = "the blank ______ is not filled in: replace every ______ by your own expression and run the cell again"


def answer(grade_id: str) -> str:
    """The solved source of a fill-in."""
    cells = code_cells(solved(NAME, "en"))
    (cell,) = [c for c in cells if c.metadata.get("nbgrader", {}).get("grade_id") == grade_id]
    return re.sub(r"### (BEGIN|END) SOLUTION\n?", "", str(cell.source))


def student(grade_id: str, *changes: tuple[str, str]) -> str:
    """The answer with some of its expressions replaced."""
    code = answer(grade_id)
    for right, wrong in changes:
        assert code.count(right) == 1, f"{right!r} stands {code.count(right)} times in {grade_id}"
        code = code.replace(right, wrong)
    return code


def told(check: Callable[[Any], None], code: str, name: str, capsys: pytest.CaptureFixture[str]) -> str:
    namespace: dict[str, Any] = {}
    exec("from minivllm.lesson.outcome import ______\n" + code, namespace)
    check(namespace[name])
    return capsys.readouterr().out


# --- from the schedule to tensors ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ('r["computed"] + i', "i", "this counts from the start of the step"),
        ("block_id * block_size + position % block_size", "block_id", "this is the block id"),
        ("block_id * block_size + position % block_size", "position", "this is the position"),
        ("block_id * block_size + position % block_size", "block_id * block_size", "this is the first slot of the block"),
        ("block_id * block_size + position % block_size", "block_id + position % block_size", "is not multiplied by block_size"),
        ("block_id * block_size + position % block_size", "block_id * block_size + i % block_size", "comes from the position"),
        ('query_start_loc[-1] + r["scheduled"]', 'r["scheduled"]', "these are the counts"),
        ('query_start_loc[-1] + r["scheduled"]', 'query_start_loc[-1] + r["computed"] + r["scheduled"]', "this sums whole sequences"),
        ('seq_lens.append(r["computed"] + r["scheduled"])', 'seq_lens.append(r["computed"])', "these are the tokens before the step"),
        ('seq_lens.append(r["computed"] + r["scheduled"])', 'seq_lens.append(r["scheduled"])', "these are the tokens of the step"),
        ('r["computed"] + i', 'r["computed"] + i + 99', "IndexError: list index out of range"),
        ('r["computed"] + i', "______", BLANK),
    ],
)  # fmt: skip
def test_a_wrong_batch_is_named(right: str, wrong: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = student("prepare_inputs", (right, wrong))
    assert message in told(check_prepare_inputs, code, "prepare_inputs", capsys)


@pytest.mark.parametrize("nonsense", [None, 3, [], lambda: None, lambda a, b: None, lambda a, b: a.clear(), print])
def test_a_batch_that_is_none_is_told_in_a_table(nonsense: Any, capsys: pytest.CaptureFixture[str]) -> None:
    check_prepare_inputs(nonsense)
    out = capsys.readouterr().out
    assert any(words in out for words in ("five lists by name", "a dict with positions", "a changed list"))


def test_a_batch_that_changes_the_requests_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    code = student("prepare_inputs", ("return {", 'requests[0]["computed"] = 0\n    return {'))
    assert "the scheduler owns them" in told(check_prepare_inputs, code, "prepare_inputs", capsys)


def test_the_mixed_step_is_the_one_that_the_prose_describes() -> None:
    found = batch_step()
    rows = {r["id"]: (found.drafts[r["id"]], r["scheduled"], r["block_ids"]) for r in found.requests}
    assert rows["A"][0] == 2 and rows["A"][2] == [1, 2, 4]  # hint 1 names this row
    assert rows["B"][:2] == (0, 1) and rows["C"][0] == 0
    assert next(view.known for view in found.step.before if view.request_id == "C") == 13
    assert found.new_block_ids["A"] == [] and found.block_size == 4


def test_the_prose_gives_the_numbers_of_the_measurements() -> None:
    english = "\n".join(prose(NAME, "en"))
    first, second, third = measure.CHUNK_BUDGETS
    assert f"a prompt of {measure.CHUNK_PROMPT} tokens arrives" in english
    assert f"under a token budget of {first}, {second} and {third}?" in english
    length = measure.PREFIX_SHARED + measure.PREFIX_OWN
    assert f"A prompt of {length} tokens, {measure.PREFIX_SHARED} of them cached" in english
    assert f"The hit computes {measure.PREFIX_OWN} of {length} tokens" in english
    asked = f"Drafts: {', '.join(map(str, on_the_gpu.DRAFTS))}."
    assert asked in english and f"and behind all drafts: {on_the_gpu.SAMPLED[-1]}." in english


def test_answers_are_what_the_lesson_text_gets_wrong() -> None:
    hits = QUESTIONS["block_size_hits"].answer().actual
    assert hits["60 shared, block 64"] == 0 and 1000 - int(hits["1000 shared, block 64"]) < 64  # claim 37
    steps = list(QUESTIONS["chunk_steps"].answer().actual.values())
    assert steps == sorted(steps) and steps[0] == 1
    assert dict(QUESTIONS["split_kv"].answer().actual) == {"equal up to rounding": "yes", "equal bit for bit": "no"}
    assert dict(QUESTIONS["draft_text"].answer().actual)["the greedy text is the same"] == "yes"


# --- verification -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ("drafts[i] != token", "drafts[i] == token", "the wrong way round"),
        ("drafts[i] != token", "False", "every sampled token was kept"),
        ("kept.append(token)", "kept.append(drafts[i])", "the model's own token takes its place"),
        ("break", "continue", "every sampled token was kept"),
        ("return kept", "return kept[:-1] if kept != sampled or drafts else []", "the accepted drafts alone"),
        ("return kept", "return [t for i, t in enumerate(sampled) if i == len(drafts) or drafts[i] == t]", "behind a rejected one"),
        ("kept.append(token)", "kept.append(______)", BLANK),
    ],
)  # fmt: skip
def test_a_wrong_rule_of_acceptance_is_named(
    right: str, wrong: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = student("kept_tokens", (right, wrong))
    assert message in told(check_kept_tokens, code, "kept_tokens", capsys)


# --- kernels ------------------------------------------------------------------------------------------------------------

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


# --- the findings -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("edition", LANGUAGES)
def test_the_findings_wait_for_a_person_and_carry_no_points(
    edition: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With real nbgrader, and the prose and the answer cell alone: the code would run for a minute."""
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)  # nbgrader starts alembic by name
    notebook = edition_of(CLONE / "solutions" / "lesson-2" / f"{NAME}.md", edition)
    notebook.cells = [cell for cell in notebook.cells if cell.cell_type == "markdown"]
    write_notebook(notebook, tmp_path / "source" / "lesson-2" / f"{NAME}.ipynb")
    config = Config()
    configure(config)
    config.CourseDirectory.root = str(tmp_path)
    config.CourseDirectory.db_url = f"sqlite:///{tmp_path / 'gradebook.db'}"
    config.BlankInAnyEdition.course_directory = str(tmp_path / "released")
    api = NbGraderAPI(config=config)
    assert api.generate_assignment("lesson-2")["success"]
    path = tmp_path / "release" / "lesson-2" / f"{NAME}.ipynb"
    released: Any = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    for name, text in {"writer": "**A:** a finding", "blank": None}.items():
        (cell,) = [cell for cell in released.cells if "nbgrader" in cell.metadata]
        before = cell.source
        cell.source = text or before
        write_notebook(released, tmp_path / "submitted" / name / "lesson-2" / f"{NAME}.ipynb")
        cell.source = before
        assert api.autograde("lesson-2", name)["success"]
    with Gradebook(f"sqlite:///{tmp_path / 'gradebook.db'}") as gradebook:
        grades = {name: gradebook.find_grade("findings", NAME, "lesson-2", name) for name in ("writer", "blank")}
        assert {name: (g.needs_manual_grade, g.score, g.max_score) for name, g in grades.items()} == {
            "writer": (True, 0, 0),
            "blank": (False, 0, 0),
        }
