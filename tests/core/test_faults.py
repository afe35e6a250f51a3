"""Every rule can be broken by one line, and the replay or the invariants notice."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from shutil import copytree

import pytest
from rich.console import Console
from rich.table import Table

import minivllm
from tests.core.faults import FAULTS, Fault
from tests.core.rules import RULES

PACKAGE = Path(minivllm.__file__).parent
DATA = Path(__file__).parents[1] / "data"

# Runs in an interpreter of its own, whose minivllm is the broken copy. Prints how many traces notice, and what two say.
NOTICE = """
import sys
from pathlib import Path
from minivllm.observe.invariants import watch
from minivllm.observe.violation import InvariantError
from minivllm.observe.replay import Replay, find_traces, load_trace, replay_trace

def broken_invariant(trace):
    replay = Replay(trace["config"], trace["requests"])
    watch(replay.scheduler)
    steps = replay.steps()
    for _ in trace["steps"]:
        try:
            next(steps)
        except InvariantError as error:
            return str(error.violations[0])
        except Exception as error:
            return repr(error)
    return ""

traces = [load_trace(file) for file in find_traces(Path(sys.argv[1]))]
noticed, first, invariant = 0, "", ""
for trace in traces:
    difference = replay_trace(trace)
    if difference is not None:
        noticed += 1
        invariant = invariant or broken_invariant(trace)
        first = first or f"{trace['name']} {difference}"
    if noticed == 3:
        break
if not noticed:
    for trace in traces:
        invariant = broken_invariant(trace)
        if invariant:
            noticed = 1
            break
print(noticed, first[:300].replace("\\n", " "), invariant[:300].replace("\\n", " "), sep="\\t")
"""


def notice(fault: Fault, folder: Path) -> tuple[str, str, str]:
    """Traces that notice the fault (counted up to 3), what the first one says, and what an invariant says."""
    copytree(PACKAGE / "core", folder / "minivllm" / "core")
    copytree(PACKAGE / "observe", folder / "minivllm" / "observe")
    for name in ("config.py", "errors.py", "request.py", "kv_cache_interface.py"):
        (folder / "minivllm" / name).write_text((PACKAGE / name).read_text())
    (folder / "minivllm" / "__init__.py").touch()
    file = folder / "minivllm" / fault.file
    file.write_text(file.read_text().replace(fault.right, fault.wrong))
    try:
        run = subprocess.run(
            [sys.executable, "-c", NOTICE, str(DATA)],
            env=os.environ | {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"},
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=60,
        )
    except subprocess.TimeoutExpired:
        return "hangs", "a step that never ends", ""
    if run.returncode != 0:
        return "fails", run.stderr.strip().rsplit("\n", 1)[-1], ""
    noticed, first, invariant = run.stdout.rstrip("\n").split("\t")
    return noticed, first, invariant


def test_catalogue_breaks_every_rule_and_each_line_it_changes_exists() -> None:
    assert len(FAULTS) >= 50
    assert {fault.rule for fault in FAULTS} == set(RULES)
    assert len({(fault.file, fault.right, fault.wrong) for fault in FAULTS}) == len(FAULTS)
    for fault in FAULTS:
        assert (PACKAGE / fault.file).read_text().count(fault.right) == fault.times, fault


def test_nothing_is_noticed_where_nothing_is_broken(tmp_path: Path) -> None:
    line = "class Scheduler:"
    assert notice(Fault("none", "core/sched/scheduler.py", line, line), tmp_path) == ("0", "", "")


def test_every_fault_is_noticed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(notice, FAULTS, [tmp_path / str(i) for i in range(len(FAULTS))]))

    table = Table("rule", "file", "fault", "traces", "first difference", "invariant", title=f"{len(FAULTS)} faults")
    for fault, (noticed, first, invariant) in zip(FAULTS, results, strict=True):
        changed = f"{fault.right.strip()} -> {fault.wrong.strip() or '(nothing)'}"
        table.add_row(fault.rule, fault.file, changed, noticed, first, invariant)
    with capsys.disabled():
        Console(width=250).print(table, markup=False)

    unnoticed = [fault for fault, (noticed, _, _) in zip(FAULTS, results, strict=True) if noticed == "0"]
    assert not unnoticed
