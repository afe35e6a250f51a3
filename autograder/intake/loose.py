"""Texts of a submission that found no place in an answer: what could be one, and where it stands."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from autograder.intake.folder import File
from autograder.intake.handed_in import Cell
from autograder.intake.likeness import text_of
from autograder.intake.own_code import plain
from autograder.intake.released import Editions, text_print
from autograder.intake.sections import MARK, Section, has_labels, sections
from autograder.intake.versions import Stranger, Version
from autograder.intake.walk import ending

MIN_TEXT = 40  # characters of a text that may be an answer without any sign that it is
MIN_COMMENT = 120
MIN_SAID = 15
MAX_READ = 2 << 20  # characters of loose texts in all
QUESTION = re.compile(r"q(\d)_answer")
_STRING = re.compile(r'("""|\'\'\')(.*?)\1', re.DOTALL)
_NO_TEXT = re.compile(r"(</?(?:style|script)\b)", re.IGNORECASE)
_BOLD = re.compile(r"</?(?:b|strong)>", re.IGNORECASE)
_HEADING = re.compile(r"<h[1-6][^<>]{0,200}>", re.IGNORECASE)
_TAG = re.compile(r"<[^<>]{0,2000}>")


@dataclass(frozen=True)
class Loose:
    """A text and where it stands.

    Attributes:
        question: the number of the question that is named above it, or 0.
        name: of the notebook that it stands in; empty for other files.
        is_certain: whether it may be taken over, if all else says so.
        is_extra: it stands in an answer of another question, and has to be cut out of it.
    """

    text: str
    file: File
    place: str = ""
    question: int = 0
    name: str = ""
    is_certain: bool = True
    is_extra: bool = False
    is_comment: bool = False
    pictures: Mapping[str, dict[str, str]] = field(default_factory=dict)
    lost_pictures: int = 0

    @property
    def where(self) -> str:
        return f"{self.place} of {self.file.name}" if self.place else self.file.name


class Texts:
    """All loose texts and code of a submission."""

    def __init__(self, known: Editions) -> None:
        self.text: list[Loose] = []
        self.code: list[Loose] = []
        cells = [cell for editions in known.values() for each in editions.values() for cell in each.cells]
        self._templates = {
            label for each in known.values() for of in each.values() for t in of.labels.values() for label in t
        }
        self._prints = {cell.print for cell in cells}
        self._lines = {line.strip() for cell in cells for line in cell.source.splitlines()}
        self._left = MAX_READ

    def add_version(self, version: Version) -> None:
        name = version.released.name
        for cell in version.released.cells:
            if cell.role == "answer" and cell.kind != "code":
                self._add_extras(version, cell.grade_id, version.answer(cell.number))
        self._add_cells(version.cells, version.file, name, version.transplant.placed)

    def add_stranger(self, stranger: Stranger) -> None:
        self._add_cells(stranger.cells, stranger.file)

    def add_file(self, file: File, text: str) -> None:
        """A file that is no notebook."""
        self._left -= len(text)
        if self._left < 0:
            return
        end = ending(file.base)
        is_page = end in (".html", ".htm", ".xhtml")
        text = _of_page(text) if is_page else text
        if end in (".py", ".pyw", ".ipy"):
            code = Loose(text, file)
            self.code.append(code)
            self._add_comments(code)
            return
        if "```" in text:
            self.code.append(Loose(plain(text), file))
        self._add_text(Loose(text, file, is_certain=not is_page))

    def _add_extras(self, version: Version, grade_id: str, text: str) -> None:
        """Parts of one answer that are another question's."""
        if version.released.is_blank(text):
            return
        found = QUESTION.fullmatch(grade_id)
        own = int(found[1]) if found else 0
        parts = sections(text, self._templates)
        extra = [each for each in parts if self._is_extra(each, own)]
        if len(extra) == len(parts):
            return
        whole = Loose(text, version.file, f"the answer {grade_id}", name=version.released.name, is_extra=True)
        for each in extra:
            cells = [cell for cell in version.cells if cell.source.strip() in each.text or each.text in cell.source]
            pictures = {name: picture for cell in cells for name, picture in cell.pictures.items()}
            lost = sum(cell.lost_pictures for cell in cells)
            loose = replace(whole, text=each.text, question=each.question, pictures=pictures, lost_pictures=lost)
            self.text.append(loose)

    def _is_extra(self, part: Section, own: int) -> bool:
        if part.question:
            return part.question != own
        return not part.first and has_labels(part.text, self._templates)

    def _add_cells(
        self, cells: Sequence[Cell], file: File, name: str = "", placed: frozenset[int] = frozenset()
    ) -> None:
        """Text cells that follow each other are one text."""
        run: list[Cell] = []
        for cell in cells:
            self._left -= len(cell.source)
            if not cell.source.strip() or self._left < 0:
                continue
            is_ours = text_print(cell.source) in self._prints
            text = text_of(cell.source, cell.kind)
            if cell.kind == "code" and not is_ours:
                code = Loose(cell.source, file, f"cell {cell.number}", name=name)
                self.code.append(code)
                self._add_comments(code if text is None else replace(code, text=""))
            if text is not None and not is_ours and cell.number not in placed:
                if run and _question(cell):
                    self._add_run(run, file, name)
                    run = []
                run.append(replace(cell, source=text))
            elif run:
                self._add_run(run, file, name)
                run = []
        self._add_run(run, file, name)

    def _add_run(self, run: Sequence[Cell], file: File, name: str) -> None:
        if run:
            text = "\n\n".join(cell.source for cell in run)
            pictures = {key: picture for cell in run for key, picture in cell.pictures.items()}
            whole = Loose(text, file, f"cell {run[0].number}", _question(run[0]), name, pictures=pictures)
            self._add_text(replace(whole, lost_pictures=sum(cell.lost_pictures for cell in run)))

    def _add_text(self, whole: Loose) -> None:
        for part in sections(self._without_released(whole.text), self._templates):
            of = part.question or (whole.question if part.first else 0)
            if (
                (of and _says_something(part.text))
                or len(part.text) >= MIN_TEXT
                or has_labels(part.text, self._templates)
            ):
                self.text.append(replace(whole, text=part.text, question=of))

    def _add_comments(self, code: Loose) -> None:
        """Long comments and strings in code."""
        lines = [line.strip() for line in code.text.splitlines()]
        comments = "\n".join(line.lstrip("# ") for line in lines if line.startswith("#") and line not in self._lines)
        strings = [each[2].strip() for each in _STRING.finditer(code.text)]
        for text in (comments, *strings):
            for part in sections(self._without_released(text), self._templates):
                told = part.question and _says_something(part.text)
                if told or len(part.text) >= MIN_COMMENT or has_labels(part.text, self._templates):
                    self.text.append(replace(code, text=part.text, question=part.question, is_comment=True))

    def _without_released(self, text: str) -> str:
        """Less the lesson's own lines, but with those that name a question."""
        kept = (line for line in text.split("\n") if MARK.match(line[:200]) or not self._is_released(line))
        return "\n".join(kept).strip()

    def _is_released(self, line: str) -> bool:
        return len(line.strip()) > 3 and line.strip() in self._lines


def _question(cell: Cell) -> int:
    found = QUESTION.fullmatch(cell.grade_id) or QUESTION.fullmatch(cell.id)
    return int(found[1]) if found else 0


def _says_something(text: str) -> bool:
    """More than the name of a question."""
    mark = MARK.match(text[:200])
    return len(re.findall(r"\w", text[mark.end() if mark else 0 :])) >= MIN_SAID


def _of_page(text: str) -> str:
    pieces = _NO_TEXT.split(text)  # text, a tag's begin, text ...
    begins = ["</", *pieces[1::2]]
    text = "\n<".join(piece for begin, piece in zip(begins, pieces[::2], strict=True) if begin.startswith("</"))
    text = _HEADING.sub("\n## ", _BOLD.sub("**", text))
    return re.sub(r"\n\s*\n+", "\n\n", html.unescape(_TAG.sub("\n", text)))


def cut_out(cells: Sequence[Cell], text: str) -> list[Cell]:
    """The cells without this text, wherever of them it stands."""
    kept = []
    for cell in cells:
        source = cell.source.strip()
        if cell.kind != "code" and source and source in text:
            continue
        if text in cell.source:
            cell = replace(cell, source=cell.source.replace(text, "").strip())
        kept.append(cell)
    return kept
