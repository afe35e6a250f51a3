"""Which encoding a file is in is told from its characters, and a guess is called a guess."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from autograder.intake.charset import decoded
from tests.autograder.intake.lesson import ONE, answer, lesson, needs, take
from tests.autograder.intake.solved import PLANNER, of, solved

TEXTS = {
    "GB 18030": ("gb18030", "只看已计算的词元与目标之间的缺口，调度器在每一步里分配预算，不问请求处于什么阶段。"),
    "Big5": ("big5", "只看已計算的詞元與目標之間的缺口，排程器在每一步裡分配預算，不問請求處於什麼階段。"),
    "Shift JIS": ("shift_jis", "スケジューラは計算済みのトークンとの差だけを見て、予算を配分する。"),
    "EUC-KR": ("euc_kr", "스케줄러는 계산된 토큰과 목표의 차이만 보고 매 단계에서 예산을 나눈다."),
    "Windows-1252": (
        "cp1252",
        "Le planificateur répartit l’écart à chaque étape – où que ce soit, même où “ça” préempte déjà.",
    ),
}


@pytest.mark.parametrize("name", TEXTS)
def test_an_encoding_is_known_by_its_characters(name: str) -> None:
    encoding, text = TEXTS[name]
    found = decoded(json.dumps({"a": text}, ensure_ascii=False).encode(encoding))
    assert json.loads(found.text) == {"a": text}
    assert found.repair == f"is encoded in {name} instead of UTF-8 and was converted" and not found.doubt


@pytest.mark.parametrize("name", TEXTS)
def test_with_few_characters_it_is_a_guess(name: str) -> None:
    encoding, text = TEXTS[name]
    short = "".join([character for character in text if not character.isascii()][:3])
    found = decoded(json.dumps({"a": short}, ensure_ascii=False).encode(encoding))
    assert found.doubt and not found.repair


def test_utf_8_with_a_few_lost_bytes_stays_utf_8() -> None:
    data = (TEXTS["GB 18030"][1] * 3).encode()
    found = decoded(data[:20] + data[21:])
    assert found.text.endswith(TEXTS["GB 18030"][1]) and "not utf-8" in found.doubt


def test_what_is_no_text_in_any_encoding_is_a_doubt() -> None:
    assert decoded(b'{"a": "\xff\xfe\x80\x81"}'[2:] * 5).doubt


@pytest.mark.parametrize("text", ("", "plain", "缺口", "\ufeff{}"))
def test_utf_8_is_no_matter(text: str) -> None:
    found = decoded(text.encode())
    assert not found.doubt and found.text.lstrip("\ufeff") == text.lstrip("\ufeff")


def test_a_notebook_in_big5_is_graded_and_called_big5(tmp_path: Path) -> None:
    notebook = solved("zh")
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            cell["source"] = TEXTS["Big5"][1]
    of(notebook, "q1_answer")["source"] = TEXTS["Big5"][1]
    data = json.dumps(notebook, ensure_ascii=False).encode("big5", "ignore")
    found = take(tmp_path, {f"{ONE}.ipynb": data})
    assert answer(found, "q1_answer") == TEXTS["Big5"][1] and answer(found, "unified_token_plan") == PLANNER
    assert any("encoded in Big5" in note.text for note in found.notes)


def test_a_guess_is_for_a_person(tmp_path: Path) -> None:
    files = {f"{name}.ipynb": json.dumps(notebook).encode() for name, notebook in lesson().items()}
    files[f"{ONE}.ipynb"] = files[f"{ONE}.ipynb"].replace(b"the gap is held", b"the gap is h\xe9ld")
    [told] = needs(take(tmp_path, files))
    assert "which is a guess" in told.text


def test_long_texts_are_told_apart_at_once() -> None:
    import time

    started = time.monotonic()
    for encoding, text in TEXTS.values():
        decoded((text * 200_000).encode(encoding)[: 16 << 20])
    assert time.monotonic() - started < 10
