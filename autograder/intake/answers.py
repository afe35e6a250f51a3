"""Where in a student's notebook the answer to an exercise stands, wherever it went."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from autograder.intake.handed_in import Cell
from autograder.intake.likeness import likeness, text_of
from autograder.intake.notes import shown
from autograder.intake.own_code import BLANK, builds_on, defines, parses, plain, same_code, without
from autograder.intake.pairing import ALIKE, Pairing
from autograder.intake.released import ReleasedCell, labels

VERY_ALIKE = 0.7
MAX_PARTS = 8
MAX_VERSIONS = 100
MIN_TEXT = 2  # characters of a text that can be an answer


@dataclass
class Answer:
    """The text that goes into the released cell.

    Attributes:
        indexes: the student's cells that it was taken from; empty if there is none.
        repairs: what had to be made up for, as the second half of a sentence about the cell.
        others: filled texts that could be meant as well and differ.
    """

    text: str
    indexes: list[int] = field(default_factory=list)
    repairs: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Version:
    text: str
    indexes: tuple[int, ...]
    here: bool  # it stands in the cell that has the grade id


def find(cell: ReleasedCell, pairing: Pairing) -> Answer:
    """The answer to the exercise of this released cell. Blank answers have the released template as their text."""
    answer = _code(cell, pairing) if cell.kind == "code" else _prose(cell, pairing)
    pairing.use(answer.indexes, cell)
    return answer


# --- code -----------------------------------------------------------------------------------------------------------


def _code(cell: ReleasedCell, pairing: Pairing) -> Answer:
    claims = [index for index in pairing.claims[cell.grade_id] if index not in pairing.used]
    versions = [v for i in _naming(cell, claims, pairing) if (v := _version(i, cell, pairing, i in claims))]
    if not versions:
        versions = [
            _Version(pairing.cells[i].source, (i,), True)
            for i in claims[:MAX_VERSIONS]
            if not _is_other_answer(i, cell, pairing) and pairing.cells[i].source.strip()
        ]
    if not versions:
        versions = _alike(cell, pairing)
    best = max(versions, key=lambda v: (_quality(v.text, pairing), v.here, v.indexes), default=None)
    blank = pairing.released.is_blank
    if best is None or blank(best.text):
        return Answer(cell.source, claims[:1])
    answer = Answer(best.text, list(best.indexes))
    answer.repairs = list(_repairs(best, claims, versions, cell, pairing))
    for each in versions:
        if set(each.indexes) & set(best.indexes) or blank(each.text):
            continue
        if same_code(each.text, best.text):
            answer.indexes += [i for i in each.indexes if i in claims]
        elif each.text not in answer.others and not builds_on(each.text, cell.targets):
            answer.others.append(each.text)
    answer.indexes += [i for i in claims if blank(pairing.cells[i].source)]
    return answer


def _naming(cell: ReleasedCell, claims: Sequence[int], pairing: Pairing) -> list[int]:
    """The cells with the id or the names of the exercise; of very many, the first and the last."""
    found = [
        index
        for index, mine in enumerate(pairing.cells)
        if index not in pairing.copies and any(name in mine.source for name in cell.targets)
    ]
    if len(found) > MAX_VERSIONS:
        half = MAX_VERSIONS // 2
        found = sorted({*claims[:half], *found[:half], *found[-half:]})
    return found


def _version(index: int, cell: ReleasedCell, pairing: Pairing, here: bool) -> _Version | None:
    """What the cell at this index and those that it was split into say, if that defines what is asked for."""
    source = pairing.written(index)
    if defines(source, cell.targets):
        others = _targets_of_others(cell, pairing)
        if any(defines(source, names) for names in others):
            return _Version(without(source, others), (index,), here)
        whole = source if pairing.cells[index].kind == "code" else plain(source)
        text, indexes = _joined(index, pairing) or (whole, (index,))
        return _Version(text, indexes, here)
    joined = _joined(index, pairing)
    if joined and defines(joined[0], cell.targets):
        return _Version(joined[0], joined[1], here)
    return None


def _joined(index: int, pairing: Pairing) -> tuple[str, tuple[int, ...]] | None:
    """The cell and those below it, where one of them is no Python alone and all together are."""
    cells = pairing.cells
    if index in pairing.number or cells[index].kind != "code":
        return None
    broken = not parses(cells[index].source)
    for end in range(index + 1, min(index + MAX_PARTS, len(cells))):
        known = end in pairing.number or end in pairing.copies or end in pairing.used
        if known or (cells[end].kind != "code" and cells[end].source.strip()):
            return None
        broken = broken or not parses(cells[end].source)
        if not broken:
            return None
        text = "\n".join(each.source for each in cells[index : end + 1])
        if broken and parses(text):
            return text, tuple(range(index, end + 1))
    return None


def _is_other_answer(index: int, cell: ReleasedCell, pairing: Pairing) -> bool:
    source = pairing.cells[index].source
    if any(defines(source, names) for names in _targets_of_others(cell, pairing)):
        return True
    return pairing.cells[index].kind != "code" and not parses(plain(source))


def _targets_of_others(cell: ReleasedCell, pairing: Pairing) -> list[frozenset[str]]:
    return [each.targets for each in pairing.released.cells if each.targets and each.targets != cell.targets]


def _alike(cell: ReleasedCell, pairing: Pairing) -> list[_Version]:
    """A cell without any id: by its place if it looks like the template, and anywhere if it does very much."""
    window = pairing.window(cell.number)
    found = []
    for index in pairing.own():
        mine = pairing.cells[index]
        if mine.kind == "code" and likeness(cell.source, mine.source) >= (ALIKE if index in window else VERY_ALIKE):
            found.append(_Version(mine.source, (index,), False))
    return found


def _quality(text: str, pairing: Pairing) -> int:
    if pairing.released.is_blank(text):
        return 0
    return 1 + parses(text) + (BLANK not in text)


def _repairs(
    best: _Version, claims: Sequence[int], versions: Sequence[_Version], cell: ReleasedCell, pairing: Pairing
) -> list[str]:
    mine = pairing.cells[best.indexes[0]]
    told = []
    if len(best.indexes) > 1:
        told.append(f"was split into {len(best.indexes)} cells and put together again")
    elif sum(each.here for each in versions) > 1 and best.here:
        told.append(f"was there {sum(each.here for each in versions)} times; the one that is filled in best was taken")
    if not best.here:
        told.append(_elsewhere(best.indexes[0], claims, cell, pairing))
    elif mine.grade_id != cell.grade_id:
        told.append("had lost its metadata and was recognised by its id")
    if mine.kind != "code":
        told.append(f"was a {mine.kind} cell and was taken as code")
    return told


def _elsewhere(index: int, claims: Sequence[int], cell: ReleasedCell, pairing: Pairing) -> str:
    number = pairing.number.get(index)
    if number is not None:
        return f"had its answer in the cell {pairing.released.cells[number].name}, from where it was taken"
    if claims:
        return f"did not hold the answer, which was taken from cell {pairing.cells[index].number}"
    if id := pairing.cells[index].grade_id:
        return f"had lost its metadata, and the answer was taken from a cell with the id {shown(id)}"
    return "had lost its metadata and was recognised by its text"


# --- text -----------------------------------------------------------------------------------------------------------


def _prose(cell: ReleasedCell, pairing: Pairing) -> Answer:
    blank = pairing.released.is_blank
    claims = [i for i in pairing.claims[cell.grade_id] if i not in pairing.used and _text(i, pairing) is not None]
    claims = [i for i in claims if not _labelled_for_another(i, cell, pairing)] or claims
    filled = [i for i in claims if not blank(_text(i, pairing) or "")]
    texts = list(dict.fromkeys((_text(i, pairing) or "").strip() for i in filled))
    parts_of_one = len(texts) > 1 and _labels_apart(texts)
    answer = Answer(cell.source, claims[:1])
    if texts:
        answer.text = "\n\n".join(texts) if parts_of_one else max(texts, key=len)
        answer.others = [] if parts_of_one else [text for text in texts if text != answer.text]
        kept = [i for i in filled if parts_of_one or (_text(i, pairing) or "").strip() == answer.text]
        answer.indexes = kept + sorted(set(claims) - set(filled))
    if parts_of_one:
        answer.repairs.append(f"was split into {len(texts)} cells and put together again")
    elif len(claims) > 1:
        which = "the longest was taken" if texts else "none is filled in"
        answer.repairs.append(f"was there {len(claims)} times; {which}")
    _add_near(answer, bool(texts), cell, pairing)
    kinds = {pairing.cells[i].kind for i in answer.indexes} - {"markdown"}
    if kinds and answer.text != cell.source:
        answer.repairs.append(f"was a {kinds.pop()} cell and was taken as text")
    return answer


def _add_near(answer: Answer, has_text: bool, cell: ReleasedCell, pairing: Pairing) -> None:
    """Text in extra cells around the answer's place belongs to it; without an answer there, it is the answer."""
    blank = pairing.released.is_blank
    near = [i for i in pairing.window(cell.number) if pairing.is_own(i) and i not in answer.indexes]
    others = set(answer.others)
    texts = {i: text for i in near if (text := _text(i, pairing)) and not blank(text) and text.strip() not in others}
    if not has_text and (far := _far(cell, pairing)) is not None:
        texts = {far: _text(far, pairing) or ""} | texts
    if not texts:
        return
    lost = not pairing.claims[cell.grade_id]
    answer.text = "\n\n".join(([answer.text] if has_text else []) + [text.strip() for text in texts.values()])
    if has_text:
        answer.repairs.append("was continued in the cell below or above, which was added")
    elif lost:
        answer.repairs.append("had lost its metadata and was recognised by its place or its text")
    else:
        answer.repairs.append(f"was left blank, and the text in cell {pairing.cells[min(texts)].number} was taken")
    answer.indexes += list(texts)


def _far(cell: ReleasedCell, pairing: Pairing) -> int | None:
    """An own text anywhere that has the labels of the template."""
    templates = [each for each in pairing.released.labels.get(cell.grade_id, ()) if each]
    found = [
        index
        for index in pairing.own()
        if (text := _text(index, pairing))
        and not pairing.released.is_blank(text)
        and any(len(each & labels(text)) * 2 > len(each) for each in templates)
    ]
    return max(found, key=lambda index: len(pairing.cells[index].source), default=None)


def _text(index: int, pairing: Pairing) -> str | None:
    mine: Cell = pairing.cells[index]
    text = text_of(mine.source, mine.kind)
    return text if text is not None and (len(text.strip()) >= MIN_TEXT or mine.pictures) else None


def _labelled_for_another(index: int, cell: ReleasedCell, pairing: Pairing) -> bool:
    """A code exercise's answer that carries this cell's id."""
    source = plain(pairing.cells[index].source)
    return any(defines(source, names) for names in _targets_of_others(cell, pairing))


def _labels_apart(texts: Sequence[str]) -> bool:
    """Whether the texts are parts of one: each has labels of its own, or none but the first has any."""
    found = [labels(text) for text in texts]
    return any(found) and len(frozenset().union(*found)) == sum(map(len, found))
