"""Each claim of the lesson text is treated by a cell of a notebook, and docs/claims.md says by which."""

import json
import re

import pytest

from tools.claims import LESSON, PAGE, page, treated

CLAIMS = [claim["number"] for claim in json.loads((LESSON / "claims.json").read_text(encoding="utf-8"))]


def test_there_are_41_claims_in_order() -> None:
    assert CLAIMS == list(range(1, 42))


@pytest.mark.parametrize("number", CLAIMS)
def test_a_cell_treats_the_claim(number: int) -> None:
    assert treated()[number], f'no cell has "claims": [{number}] in its metadata'


def test_no_cell_treats_a_claim_that_the_lesson_does_not_make() -> None:
    assert set(treated()) <= set(CLAIMS)


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run `python tools/claims.py`"


def test_the_page_names_a_notebook_and_a_heading_for_every_claim() -> None:
    rows = re.findall(r"^\| \d+ \|.*\| (.*) \|$", page(), flags=re.MULTILINE)
    assert len(rows) == 41
    assert [row for row in rows if not re.match(r"`\d-[a-z-]+`, \S", row)] == []
