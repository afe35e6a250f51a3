"""Student versions of ``unified_token_plan``, read from wrong_versions.txt and right_versions.txt."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import autograder.judging.reference.unified_token_plan as reference
from autograder.judging.reference.plan_tests import PARTS

HERE = Path(__file__).parent
ANSWER = Path(reference.__file__).read_text(encoding="utf-8")
ALL = frozenset(part.name for part in PARTS)


@dataclass(frozen=True)
class Version:
    name: str
    source: str
    lost: frozenset[str] = frozenset()
    says: str = ""


def wrong_versions() -> list[Version]:
    versions = []
    for head, body in _sections("wrong_versions.txt"):
        name, lost, says = (field.strip() for field in head.split("|"))
        parts = ALL if lost == "all" else frozenset(lost.split())
        assert parts and parts <= ALL, f"{name}: unknown part in {lost!r}"
        versions.append(Version(name, _edited(name, body) if body.startswith("@@\n") else body, parts, says))
    return versions


def right_versions() -> list[Version]:
    return [Version("the answer", ANSWER), *(Version(name, body) for name, body in _sections("right_versions.txt"))]


def _sections(file: str) -> Iterator[tuple[str, str]]:
    _, *sections = re.split(r"^=== ", (HERE / file).read_text(encoding="utf-8"), flags=re.MULTILINE)
    for section in sections:
        head, _, body = section.partition("\n")
        yield head, body.rstrip("\n") + "\n"


def _edited(name: str, body: str) -> str:
    source = ANSWER
    for change in body.split("@@\n")[1:]:
        old = "".join(f"{line[1:]}\n" for line in change.splitlines() if line[:1] != "+")
        new = "".join(f"{line[1:]}\n" for line in change.splitlines() if line[:1] != "-")
        assert source.count(old) == 1, f"{name}: {old!r} stands {source.count(old)} times in the answer"
        source = source.replace(old, new)
    return source
