"""Write docs/claims.md: where the notebooks treat each claim of the lesson text.

python tools/claims.py

The claims stand in solutions/lesson-2/claims.json. An English cell that treats some names them in its metadata,
`{"lang": "en", "minivllm": {"claims": [26, 27]}}`; students never get that metadata.
"""

import json
import re
from collections import defaultdict
from pathlib import Path

import jupytext

ROOT = Path(__file__).resolve().parents[1]
LESSON = ROOT / "solutions" / "lesson-2"
PAGE = ROOT / "docs" / "claims.md"

HEAD = """# The claims of the lesson text

The lesson text makes 41 claims that vLLM v0.28.0 settles. A notebook meets each of them, where it can with a
prediction that the engine answers.
`python tools/claims.py` writes this page from `solutions/lesson-2/`.

| # | the lesson text says | in English | verdict | treated in |
|---|---|---|---|---|
"""


def treated() -> dict[int, list[str]]:
    """Notebook and heading of every cell that treats a claim, by the claim's number."""
    places: dict[int, list[str]] = defaultdict(list)
    for path in sorted(LESSON.glob("*.md")):
        heading = ""
        for cell in jupytext.read(path).cells:
            if cell.metadata.get("lang") != "en":
                continue
            headings = re.findall(r"^#+ (.*)$", cell.source, flags=re.MULTILINE) or [heading]
            for number in cell.metadata.get("minivllm", {}).get("claims", []):
                places[number].append(f"`{path.stem}`, {headings[0]}")
            heading = headings[-1]
    return places


def page() -> str:
    """The text of docs/claims.md; a claim that no cell treats has a dash."""
    places = treated()
    rows = [
        f"| {claim['number']} | {claim['quote']} | {claim['gloss']} | {claim['verdict']} "
        f"| {'; '.join(dict.fromkeys(places[claim['number']])) or '-'} |"
        for claim in json.loads((LESSON / "claims.json").read_text(encoding="utf-8"))
    ]
    return HEAD + "\n".join(rows) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(PAGE.relative_to(ROOT))
