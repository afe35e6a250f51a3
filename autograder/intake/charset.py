"""Bytes into text, whatever wrote them: what is no UTF-8 is tried in the encodings that students' systems have."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

SURE = 0.8
AHEAD = 0.1
ENOUGH = 8  # characters to tell encodings apart by
DAMAGED = 4  # times as many characters right as wrong: UTF-8 that was damaged
MAX_SCORED = 200_000  # bytes that are not ASCII


@dataclass(frozen=True)
class Decoded:
    """The text, and a sentence's second half about it: `repair` if it is certain, `doubt` if a person has to look."""

    text: str
    repair: str = ""
    doubt: str = ""


def decoded(data: bytes) -> Decoded:
    encoding = json.detect_encoding(data)
    marked = encoding not in ("utf-8", "utf-8-sig") or data.startswith(b"\xef\xbb\xbf")
    told = f"is encoded in {encoding} instead of UTF-8 and was converted" if marked else ""
    try:
        return Decoded(data.decode(encoding, "surrogatepass"), told)
    except UnicodeDecodeError:
        garbled = data.decode(encoding, "replace")
    wrong = garbled.count("\ufffd")
    right = _foreign(garbled) - wrong
    if encoding.startswith("utf-8") and right < DAMAGED * wrong and (found := _by_trial(data)):
        return found
    return Decoded(garbled, told, f"holds {wrong} characters that are not {encoding} and were replaced")


def _by_trial(data: bytes) -> Decoded | None:
    tried: list[tuple[float, str, str]] = []
    for name, (encoding, plausible) in ENCODINGS.items():
        try:
            text = data.decode(encoding)
        except UnicodeDecodeError:
            continue
        tried.append((_share(text, plausible), name, text))
    tried.sort(key=lambda each: -each[0])
    if not tried or not tried[0][0]:
        return None
    (score, name, text), *others = tried
    second = max((each[0] for each in others if each[2] != text), default=0.0)
    if score >= SURE and score - second >= AHEAD and _foreign(text) >= ENOUGH:
        return Decoded(text, f"is encoded in {name} instead of UTF-8 and was converted")
    return Decoded(text, "", f"is not encoded in UTF-8: it was read as {name}, which is a guess")


def _foreign(text: str) -> int:
    """How many characters are not ASCII."""
    return len(text) - len(text.encode("ascii", "ignore"))


def _share(text: str, plausible: Callable[[str], float]) -> float:
    """How plausible the characters that are not ASCII are, from 0 to 1."""
    counts = Counter(re.sub(r"[\0-\x7f]+", "", text[: MAX_SCORED * 4])[:MAX_SCORED])
    if plausible is _western and re.search(r"[^\0-\x7f]{4}", text):
        return 0.0  # no language of the west has four accents in a row
    total = counts.total()
    return sum(plausible(character) * count for character, count in counts.items()) / total if total else 0.0


def _is_sign(character: str) -> bool:
    return "\u2010" <= character <= "\u27bf" or "\u3000" <= character <= "\u303f" or "\uff01" <= character <= "\uff5e"


def _lead(character: str, encoding: str) -> int:
    try:
        found = character.encode(encoding)
    except UnicodeEncodeError:
        return 0
    return found[0] if len(found) == 2 else 0


def _simplified(character: str) -> float:
    return float(_is_sign(character) or 0xB0 <= _lead(character, "gb2312") <= 0xD7)  # the frequent ones


def _traditional(character: str) -> float:
    return float(_is_sign(character) or 0xA4 <= _lead(character, "big5") <= 0xC6)


def _japanese(character: str) -> float:
    if "\u3041" <= character <= "\u30ff":
        return 1.0
    return 0.7 * (_is_sign(character) or 0x88 <= _lead(character, "shift_jis") <= 0x97)  # there is kana in Japanese


def _korean(character: str) -> float:
    if 0xB0 <= _lead(character, "euc_kr") <= 0xC8:
        return 1.2  # the same bytes are frequent Chinese characters, which come with rare ones among them
    return 0.5 * _is_sign(character)


def _western(character: str) -> float:
    return float((character.isalpha() and character <= "\u0178") or character in "‘’“”–—…·°±×÷«»€£§©®µ\xa0")


ENCODINGS: dict[str, tuple[str, Callable[[str], float]]] = {
    "GB 18030": ("gb18030", _simplified),
    "Big5": ("cp950", _traditional),
    "Shift JIS": ("cp932", _japanese),
    "EUC-KR": ("cp949", _korean),
    "Windows-1252": ("cp1252", _western),
}
