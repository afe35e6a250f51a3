"""What the wheel needs and this machine lacks: the set-up cell installs the wheel alone, then `install_missing`."""

import subprocess
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from minivllm.errors import MinivllmError

KEPT = ("torch", "triton", "numpy", "ipywidgets")
"""Never installed and never changed: they fit the machine's GPU, and its notebook front end."""


def missing() -> list[str]:
    """The requirements of the installed wheel, less KEPT and less those that this machine satisfies."""
    from packaging.requirements import Requirement

    needs = [Requirement(line) for line in requires("minivllm") or ()]
    return [
        f"{need.name}{need.specifier}"
        for need in needs
        if need.name not in KEPT
        and (need.marker is None or need.marker.evaluate({"extra": ""}))
        and not need.specifier.contains(_installed(need.name) or "0", prereleases=True)
    ]


def install_missing() -> None:
    """Install with pip what `missing` names, without touching KEPT.

    Raises:
        MinivllmError: pip fails; the message holds what pip says.
    """
    lacks = missing()
    if not lacks:
        return
    with tempfile.TemporaryDirectory() as folder:
        pins = Path(folder) / "kept.txt"
        pins.write_text("".join(f"{name}=={_installed(name)}\n" for name in KEPT if _installed(name)))
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--constraint", str(pins), *lacks]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise MinivllmError(f"pip could not install {', '.join(lacks)}: {done.stderr.strip() or done.stdout.strip()}")


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
