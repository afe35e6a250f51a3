"""A rubric that an instructor edits: every mistake is named with its place, every pattern can match."""

from pathlib import Path

import pytest
import yaml

from autograder.judging.rubric.matching import Terms
from autograder.judging.rubric.patterns import RubricError, pattern, phrases
from autograder.judging.rubric.points import DIMENSIONS, QUESTIONS
from autograder.judging.rubric.rubric import FOLDER, load, read
from autograder.judging.rubric.segments import sentences

NAMES = frozenset({"cache", "logits", "run"})
TERMS = {
    "cache": phrases(["cache*", "缓存"], "here"),
    "logits": phrases(["logits"], "here"),
    "run": phrases(["run", "重算"], "here"),
}


def found(source: str, text: str) -> bool:
    return bool(Terms(text, sentences(text), TERMS).hits([pattern(source, NAMES, "here")]))


@pytest.mark.parametrize("question", QUESTIONS)
def test_every_concept_is_said_in_both_languages(question: str) -> None:
    rubric = load(question)
    concepts = [c for name in DIMENSIONS for c in rubric.dimensions[name].parts.values()]
    for concept in (*concepts, *rubric.errors, *rubric.vetoes):
        assert set(concept.says) == {"en", "zh"}
        assert all(concept.says.values())


@pytest.mark.parametrize("question", QUESTIONS)
def test_every_spoilt_part_and_every_limited_dimension_exists(question: str) -> None:
    rubric = load(question)
    parts = {f"{name}.{part}" for name in DIMENSIONS for part in rubric.dimensions[name].parts}
    for error in rubric.errors:
        assert error.spoils | error.contradicts <= parts
        assert set(error.takes) <= set(DIMENSIONS)


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.yaml")), ids=lambda path: path.name)
def test_a_rubric_file_is_plain_data(path: Path) -> None:
    assert isinstance(yaml.safe_load(path.read_text(encoding="utf-8")), dict)


def test_an_object_in_yaml_is_not_built(tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text("terms: !!python/object/apply:os.system ['true']\n")
    with pytest.raises(RubricError, match=r"bad\.yaml can't be read"):
        read(path)


@pytest.mark.parametrize(
    ("source", "text", "matches"),
    [
        ("cache & logits", "the cache holds logits.", True),
        ("cache & logits", "the cache holds no logits.", False),
        ("cache & no:logits", "the cache holds no logits.", True),
        ("cache & any:logits", "the cache holds no logits.", True),
        ("cache & no:logits", "缓存里没有 logits。", True),
        ("cache & logits", "the cache is full. logits are needed.", False),
        ("cache && logits", "the cache is full. logits are needed.", True),
        ("cache > logits", "logits are not in it, the cache is full.", False),
        ("cache + logits", "the cache is full, logits are needed.", False),
        ("cache & !run", "the cache is full.", True),
        ("cache & !run", "the cache is full, run it.", False),
        ("logits", "not only logits are needed.", True),
        ("run", "rerunning is needless.", False),
        ("cache", "cached, not computed.", True),
        ("no:run", "不需要重算。", True),
        ("run", "不得不重算。", True),
        ("run", "the answer is not there but run it.", True),
    ],
)
def test_a_pattern_means_what_the_head_of_the_file_says(source: str, text: str, matches: bool) -> None:
    assert found(source, text) is matches


@pytest.mark.parametrize(
    ("source", "message"),
    [("cache & lgits", "names the term 'lgits'"), ("!run", "wants nothing to be there"), ("", "names the term ''")],
)
def test_a_wrong_pattern_is_refused_with_its_place(source: str, message: str) -> None:
    with pytest.raises(RubricError, match=r"q2\.yaml: chain") as error:
        pattern(source, NAMES, "q2.yaml: chain")
    assert message in str(error.value)


@pytest.mark.parametrize("of", [[], ["cache", ""], ["(cache"], ["?"]])
def test_a_wrong_phrase_is_refused_with_its_place(of: list[str]) -> None:
    with pytest.raises(RubricError, match=r"q2\.yaml: term cache"):
        phrases(of, "q2.yaml: term cache")
