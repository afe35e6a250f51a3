"""Which packages student code can import where it is graded: PACKAGES and what they require, and nothing else."""

from __future__ import annotations

import functools
import importlib.metadata
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import Requirement

import minivllm

PACKAGES = ("minivllm", "ipykernel")
"""The one list. To let answers import another package, install it beside minivllm and name it here."""


@functools.cache
def importable() -> dict[str, Path]:
    """The files and folders to show, by the name under which they stand in a folder of packages."""
    found = {}
    for distribution in _required(PACKAGES):
        for file in distribution.files or ():
            top = file.parts[0]
            if top not in ("..", "__pycache__") and not top.endswith(".pth") and top not in found:
                found[top] = Path(str(distribution.locate_file(top)))
    found["minivllm"] = Path(minivllm.__file__).resolve().parent  # an editable install does not list it
    return {name: path for name, path in found.items() if path.exists()}


def _required(names: tuple[str, ...]) -> Iterator[importlib.metadata.Distribution]:
    """The installed distributions of these names and, in turn, of all that they require here."""
    wanted, seen = list(names), set()
    while wanted:
        name = wanted.pop()
        if name in seen:
            continue
        seen.add(name)
        try:
            distribution = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue  # what it is needed for says so when it is imported
        yield distribution
        requirements = map(Requirement, distribution.requires or ())
        wanted += [r.name for r in requirements if r.marker is None or r.marker.evaluate({"extra": ""})]
