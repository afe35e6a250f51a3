"""What rubric/*.yaml writes: phrases of a term, and patterns of terms.

A phrase is plain text. `*` stands for any ending of a word, `...` for up to 14 characters, `#` for a number, (a|b) for
a choice, `?` makes the character or choice before it optional, `**` lets it come
any number of times, a space fits a hyphen, an underscore or nothing.
English words match whole, with or without a plural s.

A pattern joins names of terms. "a + b": in one clause. "a & b": in one sentence. "a > b": in one sentence, a before b.
"a && b": in two sentences that follow each other. A name alone wants the term affirmed, `no:a` denied, `any:a` either;
`!a` wants it absent from the sentence.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_START = r"(?:(?<![a-z0-9_])(?=[a-z0-9_])|(?![a-z0-9_]))"
_END = r"(?:(?<=[a-z0-9_])s?(?![a-z0-9_])|(?<![a-z0-9_]))"
_SPECIAL = re.compile(r"\.\.\.|\*\*|[*#() |?]|[^*#() |?.]+|\.")


class RubricError(ValueError):
    """A rubric file says something that can't be read; the message names file, place and remedy."""


class Atom(NamedTuple):
    term: str
    polarity: str  # "", "no", "any" or "!"


class Step(NamedTuple):
    """Atoms of one clause; how it follows the step before: "&", ">" or "&&"."""

    link: str
    atoms: tuple[Atom, ...]


class Pattern(NamedTuple):
    source: str
    steps: tuple[Step, ...]
    absent: tuple[str, ...]


def phrases(of: list[str], where: str) -> re.Pattern[str]:
    if not of or any(not phrase for phrase in of):
        raise RubricError(f"{where}: the term has no phrase or an empty one; write phrases with one comma between them")
    longest_first = sorted(of, key=lambda phrase: -len(phrase))
    try:
        return re.compile(_START + "(?:" + "|".join(_phrase(phrase) for phrase in longest_first) + ")" + _END)
    except re.error as error:
        raise RubricError(f"{where}: a phrase can't be read ({error}); write ( ) and | in pairs") from None


def _phrase(phrase: str) -> str:
    out: list[str] = []
    for token in _SPECIAL.findall(phrase.lower()):
        match token:
            case "...":
                out.append(r"[^。!?\n;,]{0,14}?")
            case "**":
                out.append("*")
            case "*":
                out.append("[a-z0-9_]*")
            case "#":
                out.append(r"\d+(?:[.,]\d+)*")
            case " ":
                out.append(r"[ _-]?")
            case "(":
                out.append("(?:")
            case ")" | "|" | "?":
                out.append(token)
            case _:
                out.append(re.escape(token))
    return "".join(out)


def pattern(source: str, terms: frozenset[str], where: str) -> Pattern:
    steps: list[Step] = []
    absent: list[str] = []
    link = "&"
    for token in re.split(r"\s+(&&|&|>)\s+", source.strip()):
        if token in ("&&", "&", ">"):
            link = token
            continue
        atoms = []
        for written in token.split("+"):
            sign, name = re.fullmatch(r"\s*(no:|any:|!)?\s*(\S*)\s*", written).groups() or ("", "")  # type: ignore[union-attr]
            if name not in terms:
                raise RubricError(f"{where}: pattern {source!r} names the term {name!r}, which is not among the terms")
            if sign == "!":
                absent.append(name)
            else:
                atoms.append(Atom(name, (sign or "").rstrip(":")))
        if atoms:
            steps.append(Step(link, tuple(atoms)))
    if not steps:
        raise RubricError(f"{where}: pattern {source!r} wants nothing to be there; name at least one term")
    return Pattern(source, tuple(steps), tuple(absent))
