"""Imports run downwards: the core knows nothing of who looks at it, and needs nothing but the standard library."""

import ast
import sys
from pathlib import Path

import pytest

import minivllm

PACKAGE = Path(minivllm.__file__).parent
BELOW = {
    "errors": set(),
    "kv_cache_interface": set(),
    "config": {"kv_cache_interface"},
    "request": set(),
    "core": {"config", "request", "kv_cache_interface", "core"},
    "observe": {"config", "errors", "request", "kv_cache_interface", "core", "observe"},
    "kernels": {"errors", "kernels"},
    "model": {"errors", "kernels", "model"},
    "engine": {"config", "errors", "kv_cache_interface", "request", "core", "kernels", "model", "engine"},
    "bench": {"config", "errors", "request", "core", "observe", "model", "engine", "bench"},
}  # fmt: skip


def imports(file: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    return found


def files(layer: str) -> list[Path]:
    folder = PACKAGE / layer
    return sorted(folder.rglob("*.py")) if folder.is_dir() else [folder.with_suffix(".py")]


@pytest.mark.parametrize("layer", BELOW)
def test_a_layer_imports_only_what_lies_below_it(layer: str) -> None:
    for file in files(layer):
        own = {name.split(".")[1] for name in imports(file) if name.startswith("minivllm.")}
        assert own <= BELOW[layer], file


@pytest.mark.parametrize("layer", ["kv_cache_interface", "config", "request", "core", "observe"])
def test_the_core_and_what_watches_it_need_only_the_standard_library(layer: str) -> None:
    for file in files(layer):
        foreign = {name for name in imports(file) if name.split(".")[0] not in {*sys.stdlib_module_names, "minivllm"}}
        assert not foreign, file
