"""Pack what a student gets: one edition's notebooks, the wheel, the tested versions and a page to start from.

python tools/student_bundle.py en|zh [--out dist]
"""

import argparse
import json
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from markdown_it import MarkdownIt

ROOT = Path(__file__).resolve().parents[1]
EDITIONS = ("en", "zh")
LANG = {"en": "en", "zh": "zh-CN"}

PAGE = """<!doctype html>
<html lang="{lang}">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>minivllm</title>
<style>
  body {{ max-width: 44rem; margin: 2rem auto; padding: 0 1rem; color: #1f2328; background: #fff; }}
  body {{ font: 1rem/1.6 system-ui, sans-serif; }}
  code {{ background: #eff1f3; padding: .1em .3em; border-radius: .2em; }}
  pre {{ background: #eff1f3; padding: .8em 1em; white-space: pre-wrap; }}
  pre code {{ padding: 0; }}
  td, th {{ padding: .2em .8em .2em 0; text-align: left; }}
</style>
{body}
</html>
"""


class BundleError(Exception):
    """The bundle can't be packed; the message says why and what to do."""


def build_wheel(folder: Path) -> Path:
    """Build minivllm's wheel into `folder` and return its path."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BundleError(f"the wheel does not build:\n{done.stdout}{done.stderr}")
    return next(folder.glob("minivllm-*.whl"))


def start_page(edition: str, wheel: str) -> str:
    """Return the start page of `edition` as HTML, with the wheel's file name filled in."""
    text = (ROOT / "tools" / "start" / f"{edition}.md").read_text(encoding="utf-8")
    return PAGE.format(lang=LANG[edition], body=MarkdownIt().enable("table").render(text.replace("{wheel}", wheel)))


def refuse_worked_notebook(path: Path) -> None:
    """Raise BundleError if the notebook was run, or holds what only the instructor may see."""
    text = path.read_text(encoding="utf-8")
    where = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.name
    if any(cell.get("outputs") for cell in json.loads(text)["cells"]):
        raise BundleError(f"{where} holds outputs: run `make course` to build it afresh.")
    for mark in ("BEGIN SOLUTION", "BEGIN HIDDEN TESTS"):
        if mark in text:
            raise BundleError(f"{where} holds {mark}: run `make course` to build it afresh.")


def released_notebooks(edition: str) -> dict[str, bytes]:
    """The notebooks of `edition` by their path in the bundle; BundleError if there are none, or a worked one."""
    course = ROOT / "course" / edition
    notebooks = sorted(path for path in course.rglob("*.ipynb") if ".ipynb_checkpoints" not in path.parts)
    if not notebooks:
        raise BundleError(f"course/{edition} holds no notebook: run `make course` first.")
    for notebook in notebooks:
        refuse_worked_notebook(notebook)
    return {notebook.relative_to(course).as_posix(): notebook.read_bytes() for notebook in notebooks}


def write_zip(folder: Path, name: str, files: dict[str, bytes]) -> Path:
    """Write `folder`/`name`.zip with everything under `name`/; the same files give the same bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(folder / f"{name}.zip", "w", zipfile.ZIP_DEFLATED) as bundle:
        for path, data in sorted(files.items()):
            entry = zipfile.ZipInfo(f"{name}/{path}")
            entry.external_attr = 0o644 << 16
            bundle.writestr(entry, data, zipfile.ZIP_DEFLATED)
    return folder / f"{name}.zip"


def pack(edition: str, out: Path) -> Path:
    """Write `out`/minivllm-student-`edition`.zip and return its path."""
    files = released_notebooks(edition)
    with tempfile.TemporaryDirectory() as scratch:
        wheel = build_wheel(Path(scratch))
        files[wheel.name] = wheel.read_bytes()
    files["constraints.txt"] = (ROOT / "constraints.txt").read_bytes()
    files["START-HERE.html"] = start_page(edition, wheel.name).encode()
    return write_zip(out, f"minivllm-student-{edition}", files)


def main() -> int:
    parser = argparse.ArgumentParser(description="Pack what a student gets.")
    parser.add_argument("edition", choices=EDITIONS)
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="folder of the zip (default: dist)")
    options = parser.parse_args()
    try:
        path = pack(options.edition, options.out)
    except BundleError as error:
        print(f"student_bundle: {error}", file=sys.stderr)
        return 2
    print(f"{path.name}: {path.stat().st_size / 1024:.0f} KiB, in {path.parent}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
