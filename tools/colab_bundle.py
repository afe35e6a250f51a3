"""Pack one edition for Colab: its notebooks, with the wheel's place in their set-up cell, and the wheel to put there.

python tools/colab_bundle.py en|zh [--wheel https://... | --wheel /content/drive/MyDrive/...] [--out dist]
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

from tools.student_bundle import EDITIONS, ROOT, BundleError, build_wheel, released_notebooks, write_zip

ASKS = 'os.environ.get("MINIVLLM_WHEEL", "")'


def with_wheel(notebook: bytes, place: str) -> bytes:
    """The notebook whose set-up cell takes the wheel from `place`, an address or a path in a student's Drive.

    Raises:
        BundleError: `place` is neither, or there is no set-up cell.
    """
    if not place.startswith(("https://", "http://", "/content/drive/")):
        raise BundleError(
            f"WHEEL is {place!r}: give an address (https://...) or a path in Drive (/content/drive/MyDrive/...)."
        )
    content = json.loads(notebook)
    set_up = [cell for cell in content["cells"] if ASKS in "".join(cell["source"])]
    if len(set_up) != 1:
        raise BundleError(f"the notebook has {len(set_up)} set-up cells: run `make course` to build it afresh.")
    source = "".join(set_up[0]["source"]).replace(ASKS, f'os.environ.get("MINIVLLM_WHEEL", {json.dumps(place)})')
    set_up[0]["source"] = source.splitlines(keepends=True)
    return (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode()


def pack(edition: str, place: str, out: Path) -> Path:
    """Write `out`/minivllm-colab-`edition`.zip and return its path; without a `place` the set-up cell asks."""
    files = released_notebooks(edition)
    if place:
        files = {path: with_wheel(notebook, place) for path, notebook in files.items()}
    with tempfile.TemporaryDirectory() as scratch:
        wheel = build_wheel(Path(scratch))
        files[wheel.name] = wheel.read_bytes()
    return write_zip(out, f"minivllm-colab-{edition}", files)


def main() -> int:
    parser = argparse.ArgumentParser(description="Pack one edition for Colab.")
    parser.add_argument("edition", choices=EDITIONS)
    parser.add_argument(
        "--wheel", default="", help="where students' notebooks find the wheel; they are asked without it"
    )
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="folder of the zip (default: dist)")
    options = parser.parse_args()
    try:
        path = pack(options.edition, options.wheel, options.out)
    except BundleError as error:
        print(f"colab_bundle: {error}", file=sys.stderr)
        return 2
    told = f"put its wheel at {options.wheel}" if options.wheel else "give students its wheel to upload"
    print(f"{path.name}: {path.stat().st_size / 1024:.0f} KiB, in {path.parent}; {told}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
