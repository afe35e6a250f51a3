"""What a package's modules import of their own package, read from the source: also under `if` and inside functions."""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

Layers = Sequence[Sequence[str]]
"""From the lowest on; a unit imports lower ones only, and none of its own layer."""


@dataclass(frozen=True)
class Import:
    """One import across units: the modules and folders right below a package; the package's own `__init__` is "." ."""

    where: str
    importer: str
    imported: str


def imports_across(folder: Path, package: str) -> list[Import]:
    """Every import of a unit of `package`, which lies in `folder`, by another unit of it."""
    found, known = [], units(folder)
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder).with_suffix("").parts
        importer = "." if parts == ("__init__",) else parts[0]
        parents = [*package.split("."), *parts[:-1]]
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for line, name in _names(tree, parents):
            imported = _unit(name, known, package)
            if imported is not None and imported != importer:
                found.append(Import(f"{path.relative_to(folder)}:{line}", importer, imported))
    return found


def upward(imports: Sequence[Import], layers: Layers) -> list[str]:
    """The imports that don't lead down, as sentences."""
    rank = {unit: number for number, layer in enumerate(layers) for unit in layer}
    sentences = [
        f"{it.where}: {it.importer} imports {it.imported}" for it in imports if rank[it.imported] >= rank[it.importer]
    ]
    return list(dict.fromkeys(sentences))  # one line may import several names


def units(folder: Path) -> set[str]:
    """The modules and the folders with modules right below `folder`."""
    names = {path.relative_to(folder).parts[0].removesuffix(".py") for path in folder.rglob("*.py")}
    return {"." if name == "__init__" else name for name in names}


def _names(tree: ast.Module, parents: list[str]) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = parents[: len(parents) - node.level + 1] if node.level else []
            module = ".".join([*start, *([node.module] if node.module else [])])
            yield from ((node.lineno, f"{module}.{alias.name}") for alias in node.names)


def _unit(name: str, known: set[str], package: str) -> str | None:
    """The unit of `package` that an import of `name` reaches; None outside of the package."""
    if name != package and not name.startswith(f"{package}."):
        return None
    unit = name.removeprefix(package).lstrip(".").split(".")[0]
    return unit if unit in known else "."
