"""The statements of a notebook cell as plain Python, one by one: what grading runs, and what it leaves out and why.

Shell and magic lines mean here what they do for the code around them: ``%time x = f()`` is ``x = f()``, ``%env A=1``
sets the variable, ``%%writefile`` writes its file, ``!pip install`` is left out. What is no Python costs itself: the
statements around it are still there.
"""

from __future__ import annotations

import ast
import re
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import Literal

from minivllm.submission import newer_syntax
from minivllm.submission.magics import MAX_SOURCE, Magics, as_a_notebook, is_nothing, parse, writes

MAX_STATEMENTS = 5_000  # of a cell
MAX_JOINED = 30  # pieces of a cell that is no Python, put together to one statement
MAX_TRANSFORMED = 3  # pieces that are read as IPython does
MAX_TRIED = 1_000_000  # characters
SHOWN = 80
TRANSPARENT = frozenset(["time", "capture", "prun", "memit", "wall_time"])
"""Cell magics that run their body as it stands."""
_FOREIGN = """
bash sh script system sx cmd perl ruby pypy python python2 python3 html HTML javascript js latex markdown svg SVG
cython cpp cuda cu R sql bigquery timeit ai debug
"""
FOREIGN = frozenset(_FOREIGN.split())
"""Cell magics whose body defines nothing here."""
_COMMANDS = "pip pip3 conda mamba uv cd ls ll cat cp mv rm mkdir pwd time timeit env who whos clear"
COMMANDS = frozenset(_COMMANDS.split())
_GOES_ON = re.compile(r"(?:else|elif|except|finally|case)\b|[)\]}]")
Kind = Literal["command", "syntax"]


@dataclass(frozen=True)
class Statement:
    """One statement at the top level of a cell; `line` is where it begins, from 1."""

    line: int
    text: str
    tree: ast.stmt = field(repr=False, compare=False)
    newer: str = ""
    """It was written for this Python and rewritten for an older one."""


@dataclass(frozen=True)
class Skipped:
    """What of a cell is not run: a `kind` "command" is a shell or magic line, "syntax" is no Python."""

    line: int
    text: str
    why: str
    kind: Kind = "command"

    def __str__(self) -> str:
        first = " ".join(self.text.split())
        return f"line {self.line} ({first if len(first) <= SHOWN else first[: SHOWN - 3] + '...'}) {self.why}"


@dataclass(frozen=True)
class CellCode:
    statements: tuple[Statement, ...] = ()
    skipped: tuple[Skipped, ...] = ()

    @property
    def parses(self) -> bool:
        return all(each.kind == "command" for each in self.skipped)

    @property
    def text(self) -> str:
        return "\n".join(each.text for each in self.statements)


def read(source: str) -> CellCode:
    return _remembered(source) if len(source) < 20_000 else _read(source)


def _read(source: str) -> CellCode:
    text = source.replace("\r\n", "\n").replace("\r", "\n")
    if len(text) > MAX_SOURCE:
        return CellCode((), (Skipped(1, text[:SHOWN], f"is a cell of more than {MAX_SOURCE} characters", "syntax"),))
    return _Reader().cell(text, 1)


_remembered = lru_cache(maxsize=256)(_read)


class _Reader:
    def __init__(self) -> None:
        self._skipped: list[Skipped] = []
        self._tried = 0

    def cell(self, text: str, line: int) -> CellCode:
        body = text.lstrip("\n")
        line += len(text) - len(body)
        first, _, rest = body.partition("\n")
        if not first.lstrip().startswith("%%"):
            return self._done(self._code(text, line - (len(text) - len(body))))
        name, _, argument = first.strip()[2:].partition(" ")
        if name in ("writefile", "file"):
            tree = writes(argument.split("#")[0].split(), rest)
            return self._done([Statement(line, ast.unparse(tree), tree)])
        if name in TRANSPARENT or (name not in FOREIGN and parse(rest) is not None):
            return self.cell(rest, line + 1)
        self._skip(line, first, f"is a cell for %%{name}, which grading does not run")
        return self._done([])

    def _done(self, statements: Sequence[Statement]) -> CellCode:
        if len(statements) > MAX_STATEMENTS:
            left = statements[MAX_STATEMENTS]
            why = f"and what follows is left out: a cell has more than {MAX_STATEMENTS} statements"
            self._skip(left.line, left.text, why, "syntax")
        return CellCode(tuple(statements[:MAX_STATEMENTS]), tuple(self._skipped))

    def _skip(self, line: int, text: str, why: str, kind: Kind = "command") -> None:
        self._skipped.append(Skipped(line, text[:1000], why, kind))

    def _code(self, text: str, line: int) -> list[Statement]:
        tree = parse(text)
        if tree is None:
            told = as_a_notebook(textwrap.dedent(text))
            text, tree = (told, parse(told)) if told != text else (text, None)
        if tree is None:
            return list(self._piecewise(text, line))
        return list(self._statements(tree, text, line))

    def _statements(self, tree: ast.Module, text: str, line: int, newer: str = "") -> Iterator[Statement]:
        lines: list[bytes] = [part.encode("utf-8", "surrogatepass") for part in text.split("\n")]
        for each in tree.body:
            at = line + each.lineno - 1
            if isinstance(each, ast.Import) and len(each.names) > 1:  # each of them may be missing
                for alias in each.names:
                    alone = ast.copy_location(ast.Import([alias]), each)
                    yield Statement(at, ast.unparse(alone), alone, newer)
                continue
            segment = _segment(each, lines)
            if "get_ipython" not in segment:
                yield Statement(line + _first_line(each) - 1, segment, each, newer)
                continue
            for plain in self._without_magics(each, at):
                ast.fix_missing_locations(plain)
                yield Statement(at, ast.unparse(plain), plain, newer)

    def _without_magics(self, tree: ast.stmt, line: int) -> list[ast.stmt]:
        found = Magics(lambda text, why: self._skip(line, text, why)).visit(tree)
        statements: list[ast.stmt] = found if isinstance(found, list) else [found]
        return [each for each in statements if not is_nothing(each)]

    def _piecewise(self, text: str, line: int) -> Iterator[Statement]:
        """The statements of a cell that is no Python as a whole."""
        pieces = list(_pieces(text))
        if not pieces:
            self._tell(text, line)
        index = 0
        while index < len(pieces):
            at = line + pieces[index][0]
            taken, joined, tree, newer = self._longest(pieces, index)
            if tree is not None:
                yield from self._statements(tree, joined, at, newer)
            else:
                self._tell(pieces[index][1], at)
            index += taken

    def _longest(self, pieces: Sequence[tuple[int, str]], index: int) -> tuple[int, str, ast.Module | None, str]:
        """How many pieces from `index` on are a statement, and which."""
        for end in range(index + 1, min(index + MAX_JOINED, len(pieces)) + 1):
            if end < len(pieces) and _GOES_ON.match(pieces[end][1]):
                continue
            joined = "\n".join(text for _, text in pieces[index:end])
            self._tried += len(joined)
            if self._tried > MAX_TRIED:
                break
            for text, newer in _readings(joined, end - index <= MAX_TRANSFORMED):
                if (tree := parse(text)) is not None:
                    return end - index, text, tree, newer
        return 1, "", None, ""

    def _tell(self, text: str, line: int) -> None:
        word = re.match(r"\s*([%!]*\w*)", text)
        if text.lstrip().startswith(("%", "!", "?")) or (word and word[1] in COMMANDS and "\n" not in text.strip()):
            self._skip(line, text, "is a shell or magic line, which grading does not run")
            return
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                ast.parse(text)
        except SyntaxError as error:
            at = f"line {line + error.lineno - 1}: " if error.lineno and error.lineno > 1 else ""
            self._skip(line, text, f"is no Python ({at}SyntaxError: {error.msg})", "syntax")
        except (ValueError, RecursionError, MemoryError) as error:
            self._skip(line, text, f"is no Python ({type(error).__name__}: {error})", "syntax")


def _readings(text: str, transformed: bool) -> Iterator[tuple[str, str]]:
    """The text as it is, as a notebook reads it, and in the words of an older Python."""
    yield text, ""
    if transformed and not text.startswith("!") and (told := as_a_notebook(text)) != text:
        yield told, ""
    older, version = newer_syntax.rewritten(text)
    if version:
        yield older, version


def _pieces(text: str) -> Iterator[tuple[int, str]]:
    """The text cut before each line that is not indented, with the number of lines before."""
    lines = text.split("\n")
    starts = [n for n, line in enumerate(lines) if line[:1].strip() and not line.startswith("#")]
    for start, end in pairwise([*starts, len(lines)]):
        yield start, "\n".join(lines[start:end])


def _first_line(tree: ast.stmt) -> int:
    lines: list[int] = [each.lineno for each in getattr(tree, "decorator_list", ())]
    return min([tree.lineno, *lines])


def _segment(tree: ast.stmt, lines: Sequence[bytes]) -> str:
    """The statement's own text, also where it shares its line."""
    first, last = _first_line(tree) - 1, (tree.end_lineno or tree.lineno) - 1
    start = tree.col_offset if first == tree.lineno - 1 else 0
    part = list(lines[first : last + 1])
    part[-1] = part[-1][: tree.end_col_offset]
    part[0] = part[0][start:]
    return b"\n".join(part).decode("utf-8", "surrogatepass")
