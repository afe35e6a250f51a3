"""Ways in which a notebook with right answers comes back changed. Each changes the solved notebook in place."""

from __future__ import annotations

from collections.abc import Callable

from tests.autograder.classroom import MAPPING
from tests.autograder.intake.solved import PLANNER, Notebook, insert, new, of, place, released, twin

HEAD, BODY = PLANNER.split("    plan = {}\n")
BODY = "    plan = {}\n" + BODY
HELPED = PLANNER.replace("min(need, token_budget)", "smaller(need, token_budget)")
HELPER = "def smaller(a, b):\n    return min(a, b)"
Break = Callable[[Notebook], object]
PLAN, CHECK, ESSAY = "unified_token_plan", "plan_examples", "q1_answer"
assert HELPED != PLANNER


# --- metadata ---------------------------------------------------------------------------------------------------------


def all_metadata_lost(nb: Notebook) -> None:
    nb["metadata"] = {}
    for cell in nb["cells"]:
        cell["metadata"] = {}


def metadata_and_ids_lost(nb: Notebook) -> None:
    all_metadata_lost(nb)
    nb["nbformat_minor"] = 0
    for cell in nb["cells"]:
        del cell["id"]


def as_colab_saves(nb: Notebook) -> None:
    nb["nbformat_minor"] = 0
    nb["metadata"] = {"colab": {"provenance": []}, "kernelspec": {"name": "python3"}}
    for cell in nb["cells"]:
        cell["metadata"]["id"] = cell.pop("id")[:12]
        cell["source"] = cell["source"].splitlines(keepends=True)


def one_cell_lost_its_metadata(nb: Notebook) -> None:
    of(nb, PLAN).update(metadata={}, id="x")


def answers_pasted_into_a_new_notebook(nb: Notebook) -> None:
    nb["cells"] = [new(PLANNER), new(MAPPING), new(of(nb, ESSAY)["source"], "markdown")]


def metadata_of_two_cells_swapped(nb: Notebook) -> None:
    one, other = of(nb, PLAN), of(nb, "source_mapping")
    one["metadata"], other["metadata"] = other["metadata"], one["metadata"]
    one["id"], other["id"] = other["id"], one["id"]


def metadata_of_answer_and_check_swapped(nb: Notebook) -> None:
    one, other = of(nb, PLAN), of(nb, CHECK)
    one["metadata"], other["metadata"] = other["metadata"], one["metadata"]


def metadata_of_odd_types(nb: Notebook) -> None:
    nb["metadata"] = ["kernelspec"]
    of(nb, PLAN).update(metadata={"nbgrader": {"grade_id": {"a": 1}}}, id="x")
    of(nb, CHECK)["metadata"] = []
    nb["cells"][3]["metadata"] = {"nbgrader": "yes", "tags": {"a": 1}}


def ids_that_look_like_paths(nb: Notebook) -> None:
    of(nb, CHECK)["id"] = "../x"
    of(nb, CHECK)["metadata"]["nbgrader"]["grade_id"] = "../../../etc/passwd"


def no_kernelspec(nb: Notebook) -> None:
    nb["metadata"] = {"kernelspec": {"display_name": "R", "name": "ir"}, "language_info": {"name": "R"}}


# --- cells split, doubled, merged, moved ------------------------------------------------------------------------------


def split_in_the_function_with_metadata_on_both(nb: Notebook) -> None:
    cell = of(nb, PLAN)
    nb["cells"].insert(place(nb, PLAN) + 1, twin(cell, source=BODY, id="x"))
    cell["source"] = HEAD.rstrip("\n")


def split_in_the_function_with_metadata_on_one(nb: Notebook) -> None:
    insert(nb, PLAN, BODY, 1)
    of(nb, PLAN)["source"] = HEAD.rstrip("\n")


def split_before_the_function(nb: Notebook) -> None:
    insert(nb, PLAN, HELPED, 1)
    of(nb, PLAN)["source"] = HELPER


def doubled_with_a_blank_below(nb: Notebook) -> None:
    nb["cells"].insert(place(nb, PLAN) + 1, twin(of(released(), PLAN), id="x"))


def doubled_with_a_blank_above(nb: Notebook) -> None:
    nb["cells"].insert(place(nb, PLAN), twin(of(released(), PLAN), id="x"))


def doubled_the_same(nb: Notebook) -> None:
    nb["cells"].insert(place(nb, PLAN), twin(of(nb, PLAN), id="x"))


def text_doubled_with_a_blank(nb: Notebook) -> None:
    nb["cells"].insert(3, twin(of(released(), ESSAY), id="x"))


def every_cell_doubled(nb: Notebook) -> None:
    nb["cells"] = [each for cell in nb["cells"] for each in (cell, twin(cell, id="x"))]


def merged_with_the_check_below(nb: Notebook) -> None:
    of(nb, PLAN)["source"] += "\n\n" + nb["cells"].pop(place(nb, CHECK))["source"]


def merged_with_the_text_above(nb: Notebook) -> None:
    above = nb["cells"][place(nb, ESSAY) - 1]
    above["source"] += "\n\n" + nb["cells"].pop(place(nb, ESSAY))["source"]


def both_answers_in_one_cell(nb: Notebook) -> None:
    of(nb, PLAN)["source"] += "\n\n" + MAPPING
    nb["cells"].pop(place(nb, "source_mapping"))


def both_answers_in_one_cell_and_a_blank(nb: Notebook) -> None:
    of(nb, PLAN)["source"] += "\n\n" + MAPPING
    of(nb, "source_mapping")["source"] = of(released(), "source_mapping")["source"]


def moved_to_the_end(nb: Notebook) -> None:
    nb["cells"].append(nb["cells"].pop(place(nb, PLAN)))


def all_reversed(nb: Notebook) -> None:
    nb["cells"].reverse()


# --- answers in other places ------------------------------------------------------------------------------------------


def blanked(nb: Notebook, grade_id: str = PLAN) -> None:
    of(nb, grade_id)["source"] = of(released(), grade_id)["source"]


def answer_in_a_cell_below(nb: Notebook) -> None:
    blanked(nb)
    insert(nb, PLAN, "# mine\n" + PLANNER + "\n\nprint(unified_token_plan([], 3))", 1)


def answer_in_a_cell_below_with_the_blank_emptied(nb: Notebook) -> None:
    of(nb, PLAN)["source"] = "\n"
    insert(nb, PLAN, PLANNER, 1)


def answer_cell_deleted_and_written_anew(nb: Notebook) -> None:
    nb["cells"].pop(place(nb, PLAN))
    nb["cells"].append(new(PLANNER))


def answer_above_the_assertions_of_the_check(nb: Notebook) -> None:
    blanked(nb)
    of(nb, CHECK)["source"] = PLANNER + "\n\n" + of(nb, CHECK)["source"]


def answer_in_place_of_the_check(nb: Notebook) -> None:
    blanked(nb)
    of(nb, CHECK)["source"] = PLANNER + "\n\nassert unified_token_plan([], 1) == ({}, 1)"


def answer_in_the_set_up_cell(nb: Notebook) -> None:
    blanked(nb)
    nb["cells"][2]["source"] += "\n\n" + PLANNER


def answer_in_the_other_answer(nb: Notebook) -> None:
    blanked(nb)
    of(nb, "source_mapping")["source"] = PLANNER + "\n" + MAPPING


def code_made_text(nb: Notebook) -> None:
    of(nb, PLAN)["cell_type"] = "markdown"


def code_in_a_fence(nb: Notebook) -> None:
    of(nb, PLAN).update(cell_type="markdown", source=f"My answer:\n\n```python\n{PLANNER}\n```\n")


def code_made_raw(nb: Notebook) -> None:
    of(nb, PLAN)["cell_type"] = "raw"


def text_made_code(nb: Notebook) -> None:
    of(nb, ESSAY).update(cell_type="code", outputs=[], execution_count=None)


def text_made_raw(nb: Notebook) -> None:
    of(nb, ESSAY)["cell_type"] = "raw"


def text_in_a_cell_below(nb: Notebook) -> None:
    text = of(nb, ESSAY)["source"]
    blanked(nb, ESSAY)
    insert(nb, ESSAY, text, 1, "markdown")


def text_in_a_code_cell_below(nb: Notebook) -> None:
    text = of(nb, ESSAY)["source"]
    blanked(nb, ESSAY)
    insert(nb, ESSAY, text, 1)


def text_cell_deleted_and_written_at_the_end(nb: Notebook) -> None:
    text = nb["cells"].pop(place(nb, ESSAY))["source"]
    nb["cells"].append(new(text, "markdown"))


def text_split_at_its_labels(nb: Notebook) -> None:
    one, _, rest = of(nb, ESSAY)["source"].partition("\n\n")
    nb["cells"].insert(place(nb, ESSAY) + 1, twin(of(nb, ESSAY), source=rest, id="x"))
    of(nb, ESSAY)["source"] = one


def text_continued_below(nb: Notebook) -> None:
    one, _, rest = of(nb, ESSAY)["source"].partition("\n\n")
    insert(nb, ESSAY, rest, 1, "markdown")
    of(nb, ESSAY)["source"] = one


# --- what answers use -------------------------------------------------------------------------------------------------


def _helped(nb: Notebook) -> None:
    of(nb, PLAN)["source"] = HELPED


def helper_in_an_own_cell(nb: Notebook) -> None:
    _helped(nb)
    insert(nb, PLAN, HELPER + "\nsmaller(1, 2)\nraise RuntimeError")


def helper_below_the_answer(nb: Notebook) -> None:
    _helped(nb)
    insert(nb, PLAN, HELPER, 1)


def helper_in_the_set_up_cell(nb: Notebook) -> None:
    _helped(nb)
    nb["cells"][2]["source"] += "\n" + HELPER


def helper_in_a_cell_of_the_lesson(nb: Notebook) -> None:
    _helped(nb)
    nb["cells"][5]["source"] += "\n" + HELPER


def helper_in_the_check_cell(nb: Notebook) -> None:
    _helped(nb)
    of(nb, CHECK)["source"] = HELPER + "\n" + of(nb, CHECK)["source"].replace("20", "21")


def helper_with_imports_and_data_and_magics(nb: Notebook) -> None:
    _helped(nb)
    insert(nb, PLAN, "%matplotlib inline\nimport operator as op, time\nPICK = []\nPICK.append(op.lt)")
    insert(nb, PLAN, "%%time\ndef smaller(a, b):\n    return a if PICK[0](a, b) else b\ntime.sleep(100)")


def helper_beside_slow_cells(nb: Notebook) -> None:
    _helped(nb)
    insert(nb, PLAN, "while True:\n    pass")
    insert(nb, PLAN, HELPER)
    insert(nb, PLAN, "import os\nos._exit(1)")


def helper_from_a_star_import(nb: Notebook) -> None:
    of(nb, PLAN)["source"] = PLANNER.replace("min(need, token_budget)", "trunc(min(need, token_budget))")
    insert(nb, PLAN, "from math import *")


# --- cells that are not the student's to change -----------------------------------------------------------------------


def a_test_deleted(nb: Notebook) -> None:
    nb["cells"].pop(place(nb, "plan_main_path"))


def all_tests_deleted(nb: Notebook) -> None:
    nb["cells"] = [cell for cell in nb["cells"] if not cell["metadata"].get("nbgrader", {}).get("locked")]


def a_test_doubled(nb: Notebook) -> None:
    nb["cells"].insert(3, twin(of(nb, CHECK), id="x"))


def an_assertion_removed(nb: Notebook) -> None:
    of(nb, CHECK)["source"] = of(nb, CHECK)["source"].rpartition("\n")[0]


def a_test_made_text(nb: Notebook) -> None:
    of(nb, CHECK)["cell_type"] = "markdown"


def set_up_changed(nb: Notebook) -> None:
    nb["cells"][2]["source"] = "from minivllm.lesson import check"


def set_up_deleted(nb: Notebook) -> None:
    del nb["cells"][1:3]


def prose_deleted(nb: Notebook) -> None:
    nb["cells"] = [cell for cell in nb["cells"] if cell["cell_type"] == "code" or "nbgrader" in cell["metadata"]]


def prose_of_an_older_release(nb: Notebook) -> None:
    for cell in nb["cells"]:
        if cell["cell_type"] == "markdown" and "nbgrader" not in cell["metadata"]:
            cell.update(
                source=cell["source"].replace("budget", "allowance").replace("token", "tok") + "\n\nOld.", id="x"
            )


def ten_thousand_cells(nb: Notebook) -> None:
    nb["cells"] += [new(f"x = {number}") for number in range(10_000)]


REPAIRED: tuple[Break, ...] = (
    all_metadata_lost,
    metadata_and_ids_lost,
    one_cell_lost_its_metadata,
    answers_pasted_into_a_new_notebook,
    metadata_of_two_cells_swapped,
    metadata_of_answer_and_check_swapped,
    metadata_of_odd_types,
    split_in_the_function_with_metadata_on_both,
    split_in_the_function_with_metadata_on_one,
    split_before_the_function,
    merged_with_the_text_above,
    both_answers_in_one_cell,
    both_answers_in_one_cell_and_a_blank,
    answer_in_a_cell_below,
    answer_in_a_cell_below_with_the_blank_emptied,
    answer_cell_deleted_and_written_anew,
    answer_above_the_assertions_of_the_check,
    answer_in_place_of_the_check,
    answer_in_the_set_up_cell,
    answer_in_the_other_answer,
    code_made_text,
    code_in_a_fence,
    code_made_raw,
    text_made_code,
    text_made_raw,
    text_in_a_cell_below,
    text_in_a_code_cell_below,
    text_cell_deleted_and_written_at_the_end,
    text_split_at_its_labels,
    text_continued_below,
    doubled_with_a_blank_below,
    doubled_with_a_blank_above,
    text_doubled_with_a_blank,
)
QUIET: tuple[Break, ...] = (
    as_colab_saves,
    ids_that_look_like_paths,
    no_kernelspec,
    doubled_the_same,
    every_cell_doubled,
    merged_with_the_check_below,
    moved_to_the_end,
    all_reversed,
    helper_in_an_own_cell,
    helper_below_the_answer,
    helper_in_a_cell_of_the_lesson,
    helper_with_imports_and_data_and_magics,
    helper_beside_slow_cells,
    helper_from_a_star_import,
    a_test_doubled,
    prose_deleted,
    prose_of_an_older_release,
    ten_thousand_cells,
)
EDITED: tuple[Break, ...] = (
    helper_in_the_set_up_cell,
    helper_in_the_check_cell,
    a_test_deleted,
    all_tests_deleted,
    an_assertion_removed,
    a_test_made_text,
    set_up_changed,
    set_up_deleted,
)
