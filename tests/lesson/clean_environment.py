"""A virtual environment like a Colab machine's: ipywidgets 7.7.1, no nbgrader, no clone, minivllm not installed yet."""

import json
import os
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, files, requires
from pathlib import Path
from typing import Any
from unittest.mock import patch

from nbclient import NotebookClient
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

IPYWIDGETS = ("ipywidgets==7.7.1", "ipython-genutils==0.2.0")
LARGE = ("torch", "triton", "numpy", "matplotlib", "ipykernel", "safetensors", "tokenizers", "huggingface-hub")
"""Borrowed from the environment of the tests, with what they need: nobody has to fetch them twice."""


class CleanEnvironment:
    """One virtual environment, and a kernel in it that nbclient finds as `clean`."""

    def __init__(self, folder: Path, python: str, *, borrow: bool) -> None:
        self.folder = folder
        self.python = folder / "venv" / "bin" / "python"
        subprocess.run([python, "-m", "venv", str(folder / "venv")], check=True)
        self.site = next((folder / "venv" / "lib").glob("python3*")) / "site-packages"
        if borrow:
            self._borrow()
        self._pip_install(*IPYWIDGETS, "--no-deps")
        if not borrow:
            self._pip_install("ipykernel", "numpy", "matplotlib")
        kernel = folder / "jupyter" / "kernels" / "clean"
        kernel.mkdir(parents=True)
        command = [str(self.python), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        spec = {"argv": command, "display_name": "clean", "language": "python"}
        (kernel / "kernel.json").write_text(json.dumps(spec))

    def _borrow(self) -> None:
        borrowed = self.folder / "borrowed"
        borrowed.mkdir()
        for name in with_dependencies(LARGE):
            for top in {path.parts[0] for path in files(name) or ()} - {"..", "__pycache__"}:
                place = next(Path(entry, top) for entry in sys.path if Path(entry, top).exists())
                (borrowed / top).symlink_to(place)
        (self.site / "borrowed.pth").write_text(f"{borrowed}\n")

    def _pip_install(self, *what: str) -> None:
        command = [str(self.python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *what]
        subprocess.run(command, check=True)

    def says(self, code: str) -> str:
        """What the environment's Python prints for `code`, far from the clone."""
        done = subprocess.run([self.python, "-c", code], cwd=self.folder, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def run(self, notebook: Any) -> Any:
        """Run the notebook top to bottom in an empty folder."""
        place = self.folder / "elsewhere"
        place.mkdir(exist_ok=True)
        resources = {"metadata": {"path": str(place)}}
        with patch.dict(os.environ, {"JUPYTER_PATH": str(self.folder / "jupyter")}):
            return NotebookClient(notebook, timeout=180, kernel_name="clean", resources=resources).execute()


def with_dependencies(names: tuple[str, ...]) -> set[str]:
    """The installed distributions among `names` and what they require."""
    found: set[str] = set()
    ahead = list(names)
    while ahead:
        name = canonicalize_name(ahead.pop())
        try:
            needs = [Requirement(line) for line in requires(name) or ()]
        except PackageNotFoundError:
            continue
        if name not in found:
            found.add(name)
            ahead += [need.name for need in needs if need.marker is None or need.marker.evaluate({"extra": ""})]
    return found


def python_312() -> str | None:
    """A Python 3.12 of this machine: on PATH, or one of pyenv's."""
    pyenv = sorted(Path.home().glob(".pyenv/versions/3.12.*/bin/python3.12"))
    for command in filter(None, (shutil.which("python3.12"), *map(str, pyenv))):
        if subprocess.run([command, "-c", "import venv"], capture_output=True, check=False).returncode == 0:
            return command
    return None
