"""What a notebook cell is as plain statements, and what of it is left out."""

from __future__ import annotations

import time

import pytest

from minivllm.submission import cell_code, magics

ENV = "__import__('os').environ.__setitem__('A', 'b c')"


@pytest.mark.parametrize(
    ("source", "statements"),
    [
        ("x = 1; y = 2", [(1, "x = 1"), (1, "y = 2")]),
        ("\n\nimport a, b as c", [(3, "import a"), (3, "import b as c")]),
        ("@d\ndef f():\n    pass\nz = '''\n!x\n'''", [(1, "@d\ndef f():\n    pass"), (4, "z = '''\n!x\n'''")]),
        ("  x = 1\n  y = 2", [(1, "x = 1"), (2, "y = 2")]),
        ("x = 1\r\ny = 2\r\n", [(1, "x = 1"), (2, "y = 2")]),
        (">>> x = 1\n>>> y", [(1, "x = 1"), (2, "y")]),
        ("%time z = f(3)", [(1, "z = f(3)")]),
        ("a = %time f(3)", [(1, "a = f(3)")]),
        ("%env A=b c", [(1, ENV)]),
        ("%env A b c", [(1, ENV)]),
        ("%%time\n%%capture out\ndef f(): pass", [(3, "def f(): pass")]),
        ("%%unheard_of -x\nx = 1", [(2, "x = 1")]),
        ("%matplotlib inline\n%load_ext autoreload\n%autoreload 2", []),
        ("x =\ny = 1\nif y:\n    z = 2\nelse:\n    z = 3", [(2, "y = 1"), (3, "if y:\n    z = 2\nelse:\n    z = 3")]),
        ("pip install x\nx = [\n1,\n\n2]\nf(", [(2, "x = [\n1,\n\n2]")]),
        ("s = 'a\u2028%b\x0c'\n!ls\nt = 1", [(1, "s = 'a\u2028%b\x0c'"), (3, "t = 1")]),
        ("s = '汉字'; t = 1\n", [(1, "s = '汉字'"), (1, "t = 1")]),
        ("x = !ls", [(1, "x = []")]),
        ("get_ipython().system('ls')\nx = get_ipython().getoutput('ls')", [(2, "x = []")]),
        ("if x:\n    !ls\n    %time y = 1", [(1, "if x:\n    None\n    y = 1")]),
        ("get_ipython().ast_transformers.append(T())", [(1, "get_ipython().ast_transformers.append(T())")]),
        ("", []),
        ("# only a comment", []),
    ],
)
def test_a_cell_is_its_statements(source: str, statements: list[tuple[int, str]]) -> None:
    assert [(each.line, each.text) for each in cell_code.read(source).statements] == statements


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("x = 1\n!pip install x", "line 2 (!pip install x) is a shell line"),
        ("x = !ls", "line 1 (!ls) is a shell line, which grading does not run: its output is an empty list"),
        ("len?", "line 1 (len?) asks for help"),
        ("%timeit f()", "line 1 (%timeit f()) is a magic line"),
        ("%%bash\nls", "line 1 (%%bash) is a cell for %%bash"),
        ("pip install pandas", "line 1 (pip install pandas) is a shell or magic line"),
        ("y = 1\nx =\n", "line 2 (x =) is no Python (SyntaxError: invalid syntax)"),
        ("def f(a)\n    return 1", "line 1 (def f(a) return 1) is no Python (SyntaxError: expected ':')"),
        ("def f(a):\n    x = = 1", "line 1 (def f(a): x = = 1) is no Python (line 2: SyntaxError: invalid syntax)"),
        ("x" * (magics.MAX_SOURCE + 1), "is a cell of more than 400000 characters"),
        ("x = 1\0", "is no Python"),
        ("(" * 5_000, "is no Python"),
        ("#\0", "is no Python"),
    ],
)
def test_what_is_left_out_is_told(source: str, told: str) -> None:
    [skipped] = cell_code.read(source).skipped
    assert told in str(skipped) and len(str(skipped)) < 400


@pytest.mark.parametrize(
    "piece",
    ["x = (\n", "def f(:\n    y\n", "'''\n", "f'{d['a']}' +\n", "!ls\nx =\n", "@d\n", "if x:\n", "word " * 20 + "\n"],
)
def test_a_cell_made_to_be_slow_is_read_in_seconds(piece: str) -> None:
    started = time.monotonic()
    cell_code.read(piece * (30_000 // len(piece)))
    assert time.monotonic() - started < 20
