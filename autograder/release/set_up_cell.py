# @title Set-up: run this cell first
# Where minivllm is installed, this does nothing. On Colab it installs the course's wheel, and of what the wheel needs
# only what this machine lacks; torch, triton, numpy and ipywidgets stay as they are.
import importlib.util
import os

# An address or a path in Drive; empty: you are asked for the file.
MINIVLLM_WHEEL = os.environ.get("MINIVLLM_WHEEL", "")


def fetch_wheel(place: str) -> bytes:
    import urllib.request
    from pathlib import Path

    if "://" in place:
        try:
            return bytes(urllib.request.urlopen(place, timeout=60).read())
        except (OSError, ValueError) as error:
            raise RuntimeError(f"{place} gives no wheel ({error}): ask your instructor for the right address") from None
    if place:
        if place.startswith("/content/drive/") and not Path("/content/drive/MyDrive").is_dir():
            raise RuntimeError(
                f"Drive is not mounted, so {place} is not there: Files > Mount Drive, then run this again"
            )
        if not Path(place).is_file():
            raise RuntimeError(f"there is no file {place}: correct MINIVLLM_WHEEL in this cell and run it again")
        return Path(place).read_bytes()
    try:
        colab = importlib.import_module("google.colab.files")
    except ImportError:
        raise RuntimeError("minivllm is not installed: pip install the wheel that came with this notebook") from None
    print("Choose the wheel that came with this notebook: minivllm-...-py3-none-any.whl")
    for data in colab.upload().values():
        return bytes(data)
    raise RuntimeError("no file was chosen: run this cell again and choose the wheel")


def install_wheel(wheel: bytes) -> None:
    import io
    import re
    import subprocess
    import sys
    import tempfile
    import zipfile
    from pathlib import Path

    names = zipfile.ZipFile(io.BytesIO(wheel)).namelist() if zipfile.is_zipfile(io.BytesIO(wheel)) else []
    found = re.search(r"^(minivllm-[^/\n]+)\.dist-info/METADATA$", "\n".join(names), re.MULTILINE)
    if not found:
        raise RuntimeError(
            "this file is not minivllm's wheel: take minivllm-...-py3-none-any.whl and run this cell again"
        )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{found[1]}-py3-none-any.whl"
        path.write_bytes(wheel)
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", str(path)]
        done = subprocess.run(pip, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"pip could not install {path.name}: {done.stderr.strip()}")


if importlib.util.find_spec("minivllm") is None:
    install_wheel(fetch_wheel(MINIVLLM_WHEEL))
    importlib.invalidate_caches()
    from minivllm.dependencies import install_missing

    install_missing()
    print("minivllm is installed.")
