"""The honest notebooks of code.txt, built from the solved one."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import indent

from tests.autograder.intake.solved import PLANNER, Notebook, new, of, place, solved

SMALLER = PLANNER.replace("min(need, token_budget)", "smaller(need, token_budget)")
METHOD = PLANNER.replace("def unified_token_plan(", "def plan(self, ")
LARGE = "TABLE = {\n" + "".join(f'    "key {n}": {n},\n' for n in range(5_000)) + "}\nsmaller = min\n"
PLACES = "above|between|below|text|answer|mapping|lesson|file|crlf"
PLAN, LAST = "unified_token_plan", "q1_answer"
assert len(LARGE) > 60_000 and SMALLER != PLANNER != METHOD


@dataclass
class Case:
    name: str
    cells: list[tuple[str, str]]
    files: dict[str, bytes] = field(default_factory=dict)

    def notebook(self) -> Notebook:
        notebook = solved()
        for where, source in self.cells:
            self._put(notebook, where, source)
        return notebook

    def _put(self, notebook: Notebook, where: str, source: str) -> None:
        cells = notebook["cells"]
        match where:
            case "above":
                cells.insert(place(notebook, PLAN), new(source))
            case "between":
                cells.insert(place(notebook, PLAN) + 1, new(source))
            case "below":
                cells.insert(place(notebook, LAST), new(source))
            case "text":
                cells.insert(place(notebook, PLAN), new(source, "markdown"))
            case "answer":
                of(notebook, PLAN)["source"] = source
            case "mapping":
                of(notebook, "source_mapping")["source"] = source
            case "lesson":
                cells[5]["source"] += "\n" + source
            case _:
                raise ValueError(where)


def _case(section: str) -> Case:
    name, _, body = section.partition("\n")
    case = Case(name.strip(), [])
    line_end = "\n"
    for part in re.split(rf"^(?=@(?:{PLACES})(?: [\w./]+)?$)", body, flags=re.MULTILINE)[1:]:
        head, _, source = part.partition("\n")
        where, _, file = head[1:].partition(" ")
        source = source.replace("    ### METHOD\n", indent(METHOD, "    ") + "\n")
        source = source.replace("### PLANNER\n", PLANNER + "\n").replace("### SMALLER\n", SMALLER + "\n")
        if where == "crlf":
            line_end = "\r\n"
        elif where == "file":
            case.files[file] = source.encode()
        else:
            case.cells.append((where, source.rstrip("\n").replace("\n", line_end)))
    return case


def _split(text: str) -> list[Case]:
    _, *sections = re.split(r"^=== ", text, flags=re.MULTILINE)
    return [_case(section) for section in sections]


CASES = [
    *_split(Path(__file__).with_name("code.txt").read_text("utf-8")),
    Case("a cell of more than 50 kB", [("above", LARGE), ("answer", SMALLER)]),
]
