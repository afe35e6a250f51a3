"""Where a submission looks for others' work is told with its line; honest code that looks like it is not."""

from __future__ import annotations

import nbformat
import pytest

from autograder.intake.handed_in import Cell
from autograder.judging import honesty
from autograder.paths import COURSE
from autograder.running.trusted import Student


def told(source: str) -> list[tuple[str, int]]:
    cell = Cell(number=3, kind="code", source=source)
    return [(note.text, note.line) for note in honesty.in_text({"1-budget-planner": [cell]})]


LOOKS = [
    ("import glob\nglob.glob('../*/*.ipynb')", 2, "other folders"),
    ("from glob import glob\nfor f in glob('/mnt/*/**'):\n    print(f)", 2, "other folders"),
    ("import os\nroot = '..'\nfor at in os.walk(root):\n    print(at)", 3, "other folders"),
    ("import os\nos.listdir('/')", 2, "other folders"),
    ("import os\nos.listdir('/home')", 2, "other folders"),
    ("import os\nos.scandir(os.path.expanduser('~'))", 2, "other folders"),
    ("from pathlib import Path\nlist(Path('..').rglob('*.ipynb'))", 2, "other folders"),
    ("from pathlib import Path\nlist(Path.home().iterdir())", 2, "other folders"),
    ("from pathlib import Path\nlist(Path.cwd().parent.rglob('*'))", 2, "other folders"),
    ("import glob\nglob.glob('*.ipynb')", 2, "other folders"),
    ("import os\nos.listdir('/srv/submitted')", 2, "other folders"),
    ("!ls ..", 1, "other folders"),
    ("!find / -name '*planner*'", 1, "other folders"),
    ("!cat ../other/1-budget-planner.ipynb", 1, "other folders"),
    ("import subprocess\nsubprocess.run(['ls', '..'])", 2, "other folders"),
    ("import os\nos.system('find / -name x')", 2, "other folders"),
    ("open('/etc/passwd').read()", 1, "accounts"),
    ("import os\nprint(os.environ)", 2, "environment"),
    ("import os\ndict(os.environ)", 2, "environment"),
    ("import os\nfor key, value in os.environ.items():\n    print(key, value)", 2, "environment"),
    ("!env", 1, "environment"),
    ("import requests\nrequests.get('https://example.org')", 1, "the network"),
    ("from urllib.request import urlopen\nurlopen('https://example.org/answers').read()", 2, "the network"),
    ("import socket\nsocket.create_connection(('example.org', 80))", 2, "the network"),
    ("!curl https://example.org/answers", 1, "the network"),
    ("from openai import OpenAI", 1, "the network"),
    ("# from autograder import everything", 1, "the autograder"),
]


@pytest.mark.parametrize(("source", "line", "what"), LOOKS)
def test_a_look_at_what_is_not_the_students_is_told_with_its_line(source: str, line: int, what: str) -> None:
    assert any(what in text and at == line for text, at in told(source)), told(source)


HONEST = [
    "import glob\nglob.glob('*.csv')",
    "import glob\nglob.glob('data/**/*.json', recursive=True)\nratio = 3 / 4",
    "import os\nos.listdir()\nos.listdir('.')\nprint(os.getcwd())",
    "import os\nos.listdir('/content')\nos.listdir('/content/drive/MyDrive/course')",
    "from google.colab import drive\ndrive.mount('/content/drive')",
    "import sys\nsys.path.append('..')",
    "open('data.csv').read()\nopen('../notes.txt')",
    "from pathlib import Path\nfor p in Path('.').glob('*.txt'):\n    print(p)",
    "import os\nos.environ['CUDA_VISIBLE_DEVICES'] = '0'\nprint(os.environ.get('HOME'))",
    "%env OMP_NUM_THREADS=1\n!pip install matplotlib\n!nvidia-smi\n!ls\n!ls /content",
    "def unified_token_plan(requests, token_budget):\n    requests = [dict(r) for r in requests]\n    requests[0].get('status')",
    "requests.get('status')",
    "# os.walk('/') would be cheating, glob('..') too\nx = 1",
    "plan = {r['id']: r['total_with_spec'] / 2 for r in requests}\nprint('a/b', '...', '/'.join(plan))",
    "def walk(tree):\n    return [walk(child) for child in tree] if tree else 'done'",
    "import tempfile, os\nos.listdir(tempfile.gettempdir())",
    "text = 'see ../README'\nprint(text)",
    "import subprocess\nsubprocess.run(['nvidia-smi'])",
    "run(8)\ncall(lambda: 3)",
    "mask = ~flags\nos.listdir('results')",
]


@pytest.mark.parametrize("source", HONEST)
def test_honest_code_that_looks_like_it_is_not_told(source: str) -> None:
    assert told(source) == []


def test_the_released_notebooks_are_honest() -> None:
    for path in sorted(COURSE.rglob("*.ipynb")):
        cells = nbformat.read(path, as_version=4).cells  # type: ignore[no-untyped-call]
        handed_in = [Cell(number=n, kind=c.cell_type, source=c.source) for n, c in enumerate(cells, 1)]
        assert honesty.in_text({path.stem: handed_in}) == []


def test_copies_of_the_answers_are_told_by_name_wherever_they_lie() -> None:
    names = ["1-budget-planner.ipynb", "stuff/solutions/1.md", "plan_tests.py", "data.csv", "autograder"]
    assert [note.text for note in honesty.in_files(names)] == [
        f"a copy of {name} was handed in" for name in ("autograder", "plan_tests.py", "solutions")
    ]


def ran(source: str) -> list[str]:
    with Student("__main__", 20) as student:
        student.run("unified_token_plan", source)
        return [note.text for note in honesty.in_run("1-budget-planner", student.seen)]


@pytest.mark.requires_debian("bubblewrap")
@pytest.mark.parametrize(
    "source",
    [
        "import glob\npattern = chr(46) * 2 + chr(47) + '*'\nglob.glob(pattern)",
        "import os\nlist(os.walk(os.path.dirname(os.getcwd()) or '/'))",
        "import os\nos.listdir(chr(47))",
        "from pathlib import Path\nlist(Path(chr(47)).rglob('*.ip' + 'ynb'))",
        "import os\ntry:\n    open(chr(47) + 'etc/pass' + 'wd')\nexcept OSError: pass",
        "import socket\ntry:\n    socket.create_connection(('1.' + '1.1.1', 53), 1)\nexcept OSError: pass",
        "import urllib.request as u\ntry:\n    getattr(u, 'url' + 'open')('http://example.org', timeout=1)\nexcept OSError: pass",
        "import os\nos.system('ls ' + chr(46) * 2)",
    ],
)
def test_what_the_text_hides_is_seen_while_it_runs(source: str) -> None:
    assert ran(source)


@pytest.mark.requires_debian("bubblewrap")
@pytest.mark.parametrize(
    "source",
    [
        "import glob, os\nopen('data.csv', 'w').close()\nglob.glob('*.csv')\nos.listdir()\nos.listdir(os.getcwd())\nopen('data.csv').read()",
        "import numpy, matplotlib\nimport matplotlib.pyplot as plt\nplt.plot([1])",
        "import tempfile, os\nos.listdir(tempfile.mkdtemp())",
        "import asyncio\nasync def f(): return 1\nasyncio.run(f())",
        "from pathlib import Path\nlist(Path('.').rglob('*'))\nPath('x').exists()",
        "import torch, json, subprocess, platform\nplatform.platform()",
    ],
)
def test_honest_code_leaves_nothing_to_tell_while_it_runs(source: str) -> None:
    assert ran(source) == []
