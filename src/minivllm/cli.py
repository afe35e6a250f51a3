"""The ``minivllm`` command."""

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from minivllm.bench.scheduler import BenchError, bench_scheduler
from minivllm.observe.replay import TraceError, find_traces, load_trace, replay_trace

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="A small engine that decides as vLLM V1 does.",
)
bench_app = typer.Typer(no_args_is_help=True, help="Measure minivllm, where it makes sense beside vLLM.")
app.add_typer(bench_app, name="bench")

UsageError: type[Exception] = typer.BadParameter.__bases__[0]
"""Click's UsageError, which newer versions of Typer carry inside: the base of every complaint about a command line."""


@app.callback()
def callback() -> None:
    """A small engine that decides as vLLM V1 does."""


@app.command()
def replay(
    paths: Annotated[
        list[Path], typer.Argument(metavar="PATH...", help="trace files (.json, .json.gz) or folders of them")
    ],
    events: Annotated[bool, typer.Option("--events", help="compare the optional events of a step too")] = False,
) -> None:
    """Replay vLLM's traces against the core, and show where it decides otherwise."""
    equal: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for file in [file for path in paths for file in find_traces(path)]:
        trace = load_trace(file)
        family = trace["family"] or file.name
        total[family] += 1
        difference = replay_trace(trace, with_events=events)
        if difference is None:
            equal[family] += 1
        else:
            print(f"{file}: {difference}")
    for family in sorted(total):
        print(f"{family}: {equal[family]}/{total[family]} equal")
    print(f"{equal.total()}/{total.total()} traces equal")
    raise typer.Exit(0 if equal.total() == total.total() else 1)


@bench_app.command("scheduler")
def bench_scheduler_command(
    vllm: Annotated[
        str | None,
        typer.Option("--vllm", metavar="PYTHON", help="an interpreter with vllm 0.28.0: time vLLM's scheduler too"),
    ] = None,
    runs: Annotated[int, typer.Option("--runs", min=1, help="runs of each workload on each side")] = 5,
    output: Annotated[
        Path | None, typer.Option("--output", metavar="FILE", help="write the result as JSON too")
    ] = None,
) -> None:
    """CPU time of schedule() and update_from_output() in a step, and the ratio to vLLM's."""
    result = bench_scheduler(vllm, runs)
    print(f"{result['date']}, {result['machine']}, {'; '.join(result['versions'])}, median of {runs} runs, one thread")
    for row in result["results"]:
        print(f"{row['workload']}: {row['title']}, {row['steps']} steps")
        print(f"  minivllm  {row['minivllm_us_step']:8.1f} us a step (CPU time)")
        if row["ratio"] is not None:
            print(f"  vLLM      {row['vllm_us_step']:8.1f} us a step (CPU time)")
            print(f"  ratio     {row['ratio']:8.3f}")
    if output is not None:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(json.dumps(result, indent=1) + "\n")


def run(app: typer.Typer, errors: tuple[type[Exception], ...]) -> None:
    """Runs a command line: bad input ends in one line on stderr and exit code 2, not in a traceback."""
    try:
        code = app(standalone_mode=False)
    except UsageError as error:
        code = _fail(error.format_message())  # type: ignore[attr-defined]
    except errors as error:
        code = _fail(str(error))
    except KeyboardInterrupt:
        code = 130
    sys.exit(code)


def _fail(message: str) -> int:
    print(f"error: {' '.join(message.split())}", file=sys.stderr)
    return 2


def main() -> None:
    run(app, (TraceError, BenchError, OSError))
