"""The three findings: is each there, and of its kind? A person confirms what is suggested; nobody fails by it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import permutations
from typing import NamedTuple

from autograder.judging.rubric.matching import Terms
from autograder.judging.rubric.neutral import neutral
from autograder.judging.rubric.normalise import Text, normalise
from autograder.judging.rubric.patterns import phrases
from autograder.judging.rubric.rubric import FOLDER, Dimension, Says, commas, dimension, read
from autograder.judging.rubric.segments import Segment, sentences

KINDS = ("invariant", "boundary", "benchmark")
_MOST_PARAGRAPHS = 9
_QUOTED = 200


@dataclass(frozen=True)
class Finding:
    """One of the three. `present` is a suggestion."""

    kind: str
    present: bool
    evidence: tuple[str, ...]
    """The student's words that it was found in."""
    missing: tuple[Says, ...]
    reads_like: str | None = None
    """The kind that it reads like, where that is another one."""


@dataclass(frozen=True)
class Findings:
    findings: dict[str, Finding]
    """By kind: invariant, boundary, benchmark."""

    @property
    def complete(self) -> bool:
        return all(finding.present for finding in self.findings.values())

    def comment(self, language: str) -> str:
        """For the formgrader's comment box; `language` is en or zh, else ValueError."""
        words = _COMMENT.get(language)
        if words is None:
            raise ValueError(f"language is {language!r}: choose en or zh")
        lines = [words["complete"] if self.complete else words["open"]]
        for kind, finding in self.findings.items():
            says = _kinds()[kind].says[language]
            if finding.reads_like:
                lines.append(words["like"].format(says, _kinds()[finding.reads_like].says[language]))
            elif not finding.present:
                missing = words["and"].join(one[language] for one in finding.missing)
                lines.append(words["lacks"].format(says, missing) if finding.evidence else words["none"].format(says))
        return "\n".join(lines)


_COMMENT = {
    "en": {
        "complete": "Suggested: all three findings are there; a person confirms.",
        "open": "Suggested: look again; a person decides.",
        "like": "Wanted was {}; this reads like {}.",
        "lacks": "Wanted was {}; not found: {}.",
        "none": "Not found: {}.",
        "and": ", ",
    },
    "zh": {
        "complete": "建议：三个发现齐全；由人确认。",
        "open": "建议：再看一看；由人决定。",
        "like": "应为{}；读起来更像{}。",
        "lacks": "应为{}；没有找到：{}。",
        "none": "没有找到{}。",
        "and": "、",
    },
}


class _Kind(NamedTuple):
    says: Says
    dimension: Dimension
    heading: re.Pattern[str]
    spoils: frozenset[str]


class _Judged(NamedTuple):
    label: float
    present: set[str]
    evidence: tuple[str, ...]


def find(text: str) -> Findings:
    """Judges any text; one without content has none of the three."""
    written = normalise(text)
    announced, rest = _parts(written)
    found: dict[str, Finding] = {}
    for kind in KINDS:
        if kind in announced:
            found[kind] = _finding(kind, [written_part(written, part) for part in announced[kind]])
    free = [kind for kind in KINDS if kind not in found]
    if 0 < len(rest) < len(free):
        rest = [
            part
            for part in sentences(written.read)
            if any(part.start < one.end and one.start < part.end for one in rest)
        ]
    paragraphs = [written_part(written, part) for part in rest][:_MOST_PARAGRAPHS]
    if free and paragraphs:
        found |= _assigned(free, paragraphs)
    nothing = {kind: _finding(kind, []) for kind in KINDS}
    return Findings({kind: found.get(kind, nothing[kind]) for kind in KINDS})


def written_part(text: Text, part: Segment) -> Text:
    return Text(text.written, text.read[part.start : part.end], text.place[part.start : part.end])


def _parts(text: Text) -> tuple[dict[str, list[Segment]], list[Segment]]:
    """The paragraphs under each announced kind, and those under none."""
    announced: dict[str, list[Segment]] = {}
    rest: list[Segment] = []
    under: str | None = None
    for match in re.finditer(r"[^\n]+", text.read):
        start = match.start()
        for kind in KINDS:
            if heading := _kinds()[kind].heading.match(match.group()):
                under, start = kind, start + heading.end()
                announced.setdefault(kind, [])
                break
        part = Segment(start, match.end())
        if any(character.isalnum() for character in text.read[part.start : part.end]):
            (announced[under] if under else rest).append(part)
    return announced, rest


def _assigned(kinds: list[str], paragraphs: list[Text]) -> dict[str, Finding]:
    """Each kind gets a paragraph of its own, so that the labels sum to the most."""
    labels = [[_judge(kind, [paragraph]).label for paragraph in paragraphs] for kind in kinds]
    padded = [*range(len(paragraphs)), *[-1] * (len(kinds) - 1)]
    best = max(
        permutations(padded, len(kinds)),
        key=lambda chosen: sum(labels[i][at] for i, at in enumerate(chosen) if at >= 0),
    )
    return {
        kind: _finding(kind, [paragraphs[at]] if at >= 0 and labels[i][at] else [])
        for i, (kind, at) in enumerate(zip(kinds, best, strict=True))
    }


def _finding(kind: str, parts: list[Text]) -> Finding:
    judged = _judge(kind, parts)
    if judged.label == 1:
        return Finding(kind, True, judged.evidence, ())
    parts_of = _kinds()[kind].dimension.parts
    missing = tuple(
        part.says for name, part in parts_of.items() if (name in judged.present) == (name in _kinds()[kind].spoils)
    )
    others = [other for other in KINDS if other != kind and _judge(other, parts).label == 1]
    like = others[0] if others and judged.label == 0 else None
    return Finding(kind, False, judged.evidence, missing, like)


def _judge(kind: str, parts: list[Text]) -> _Judged:
    present: set[str] = set()
    evidence: list[str] = []
    rubric = _kinds()[kind]
    for part in parts:
        terms = _terms_in(part.read)
        found = {name for name, concept in rubric.dimension.parts.items() if terms.hits(concept.any)}
        present |= found
        if found:
            whole = sentences(part.read)
            evidence.append(" ".join(part.quote(whole[0].start, whole[-1].end).split())[:_QUOTED])
    label = rubric.dimension.label(present)
    if rubric.spoils & present and "holds" in present and not _strict(parts):
        label = 0.0
    return _Judged(label, present, tuple(evidence))


@lru_cache(maxsize=64)
def _terms_in(text: str) -> Terms:
    reading = neutral(text, _asked())
    return Terms(reading.text, reading.sentences, _terms())


_LAW = re.compile(
    r"(?<![a-z])(?:always|never|must|invariant|cannot|can't|at most|exactly|every|whatever|equals?"
    r"|no two|identical)(?![a-z])"
    r"|总|永远|必须|不变|成立|不会|不能|至多|不超过|无论|不论|等于|之和|始终|恒|不可能|从不|一致|相同"
)


def _strict(parts: list[Text]) -> bool:
    """Whether a law is stated beside a statement of speed."""
    return any(_LAW.search(part.read) for part in parts)


@cache
def _data() -> dict[str, dict[str, object]]:
    return read(FOLDER / "findings.yaml")


@cache
def _terms() -> dict[str, re.Pattern[str]]:
    written = _data()["terms"]
    return {
        name: phrases(commas(of, f"findings.yaml: {name}"), f"findings.yaml: {name}") for name, of in written.items()
    }


@cache
def _asked() -> tuple[str, ...]:
    return tuple(normalise(str(one)).read for one in _data()["question"].values())


@cache
def _kinds() -> dict[str, _Kind]:
    data = read(FOLDER / "findings.yaml")
    names = frozenset(_terms())
    kinds: dict[str, _Kind] = {}
    for kind in KINDS:
        of = data["kinds"][kind]
        words = sorted(commas(data["headings"][kind], f"findings.yaml: {kind}"), key=len, reverse=True)
        heading = re.compile(
            r"\s*(?:[#>*+-]|\d[.)]|an? |the |我的|一个)*\s*(?:"
            + "|".join(re.escape(normalise(word).read).replace(r"\ ", " ?") for word in words)
            + r")\s*(?:\([^)\n]{0,40}\))?\s*(?::|$)"
        )
        kinds[kind] = _Kind(of["says"], dimension(of, names, f"findings.yaml: {kind}"), heading, frozenset(of["not"]))
    return kinds
