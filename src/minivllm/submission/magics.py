"""What shell lines and magics mean for the code around them, without a shell and without IPython's own."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable

MAX_SOURCE = 400_000  # characters of a cell
MAX_TRANSFORMED = 1_000_000  # characters
QUIET = frozenset(
    ["matplotlib", "config", "load_ext", "reload_ext", "autoreload", "precision", "xmode", "colors", "pdb", "logstop"]
)
"""Magics that change how things are shown, and nothing of what they are."""
_BREAKS = "\u2028\u2029\x85\x0b\x0c\x1c\x1d\x1e"
_HIDE = {ord(char): 0xF0000 + number for number, char in enumerate(_BREAKS)}
_SHOW = {hidden: chr(char) for char, hidden in _HIDE.items()}
_LIKE_A_NOTEBOOK = re.compile(
    r"^[ \t]*(?:[%!?]|>>>|In \[)|^[\w \t,.]+=[ \t]*[%!]|^[ \t]*[\w.%]+\?+[ \t]*$", re.MULTILINE
)


def parse(text: str) -> ast.Module | None:
    """None for what is no Python. Nothing is said of odd escapes."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def as_a_notebook(text: str) -> str:
    """What IPython makes of shell lines, magics, questions and prompts; it takes odd separators for line breaks."""
    lines = sum(1 for _ in _LIKE_A_NOTEBOOK.finditer(text))
    if not lines or lines * len(text) > MAX_TRANSFORMED:  # it reads the text once more for each of them
        return text
    from IPython.core.inputtransformer2 import TransformerManager

    try:
        told: str = TransformerManager().transform_cell(text.translate(_HIDE))  # type: ignore[no-untyped-call]
    except Exception:  # it makes nothing of it: the text is told as what it is
        return text
    return told.translate(_SHOW).rstrip("\n")


def _expression(text: str) -> ast.expr | None:
    tree = parse(f"({text}\n)")
    match tree.body if tree else []:
        case [ast.Expr(value)]:
            return value
    return None


def writes(words: list[str], body: str) -> ast.stmt:
    append, names = "-a" in words or "--append" in words, [word for word in words if not word.startswith("-")]
    name = (names or ["untitled"])[0].strip("'\"")
    name = name.rsplit("/", 1)[-1] if name.startswith(("/", "~")) else name
    put = f"open({name!r}, {'a' if append else 'w'!r}, encoding='utf-8')"
    wrote = f"with {put} as _file:\n    _file.write({body!r})\n    __import__('importlib').invalidate_caches()"
    return ast.parse(wrote).body[0]


class Magics(ast.NodeTransformer):
    """Puts what a magic does in its place, or nothing."""

    def __init__(self, tell: Callable[[str, str], None]) -> None:
        self._tell = tell

    def visit_Expr(self, node: ast.Expr) -> ast.AST | list[ast.stmt]:
        match _call(node.value):
            case ("run_line_magic", [("time" | "prun" | "memit"), str(line)]) if tree := parse(line):
                return [self.visit(each) for each in tree.body]
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        match _call(node):
            case ("run_line_magic", [("time" | "prun"), str(line)]) if (value := _expression(line)) is not None:
                return value
            case ("run_line_magic", [("env" | "set_env"), str(line)]) if len(parts := _assigned(line)) == 2:
                name, value_text = parts
                return _parsed(f"__import__('os').environ.__setitem__({name!r}, {value_text!r})")
            case ("run_line_magic", ["run", str(line)]) if line.split() and line.split()[-1].endswith(".py"):
                name = line.split()[-1].strip("'\"")
                return _parsed(f"exec(compile(open({name!r}, encoding='utf-8').read(), {name!r}, 'exec'), globals())")
            case ("run_line_magic", [str(name), *_]) if name in QUIET:
                return ast.Constant(None)
            case ("run_line_magic", [("pinfo" | "pinfo2"), str(line)]):
                self._tell(f"{line}?", "asks for help, which grading does not")
            case ("run_line_magic", [str(name), *rest]):
                self._tell(f"%{name} {rest[0] if rest else ''}", "is a magic line, which grading does not run")
            case ("run_cell_magic", [str(name), *_]):
                self._tell(f"%%{name}", "is a magic, which grading does not run")
            case ("getoutput", [str(line), *_]):
                self._tell(f"!{line}", "is a shell line, which grading does not run: its output is an empty list")
                return ast.List([], ast.Load())
            case ("system" | "system_raw" | "getoutput", args):
                self._tell(f"!{args[0] if args else ''}", "is a shell line, which grading does not run")
            case _:
                return self.generic_visit(node)
        return ast.Constant(None)


def _parsed(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def _assigned(line: str) -> list[str]:
    return [part.strip() for part in re.split(r"\s*=\s*|\s+", line.strip(), maxsplit=1)]


def _call(node: ast.expr) -> tuple[str, list[object]] | None:
    """The method of ``get_ipython()`` that is called, and its constant arguments."""
    match node:
        case ast.Call(ast.Attribute(ast.Call(ast.Name("get_ipython"), [], []), method), args, _):
            return method, [each.value if isinstance(each, ast.Constant) else None for each in args]
    return None


def is_nothing(tree: ast.stmt) -> bool:
    """What is left of a line that does nothing here."""
    return isinstance(tree, ast.Expr) and isinstance(tree.value, ast.Constant) and tree.value.value is None
