"""The ``minivllm`` command."""

import json
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from minivllm.bench.scheduler import bench_scheduler
from minivllm.errors import MinivllmError
from minivllm.observe.replay import find_traces, load_trace, replay_trace

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


@app.command()
def generate(
    prompt: Annotated[str, typer.Argument(help="what the user says")],
    model: Annotated[str | None, typer.Option(help="a name, a path or a Hugging Face id")] = None,
    temperature: Annotated[float, typer.Option(help="0 takes the likeliest token")] = 0.0,
    max_tokens: Annotated[int, typer.Option(help="tokens of the answer at most")] = 256,
    seed: Annotated[int | None, typer.Option(help="makes the choice repeatable")] = None,
    stats: Annotated[bool, typer.Option("--stats", help="say how fast it was")] = False,
) -> None:
    """Answer a prompt, token by token, in the model's chat template."""
    from minivllm.engine.llm import LLM
    from minivllm.request import SamplingParams

    params = SamplingParams(max_tokens=max_tokens, temperature=temperature, seed=seed)
    llm = LLM(model)
    if stats:
        print(llm.kv_cache_report, file=sys.stderr)
    start = time.perf_counter()
    first = start
    shown = 0
    tokens = 0
    for output in llm.stream(llm.encode_chat([{"role": "user", "content": prompt}]), params):
        first = time.perf_counter() if tokens == 0 else first
        tokens = len(output.outputs[0].token_ids)
        text = output.outputs[0].text
        print(text[shown:], end="", flush=True)
        shown = len(text)
    print()
    if stats:
        rate = (tokens - 1) / (time.perf_counter() - first) if tokens > 1 else 0.0
        print(f"{tokens} tokens, first after {first - start:.2f} s, then {rate:.1f} tokens/s", file=sys.stderr)


@app.command()
def doctor() -> None:
    """Say what of this machine the course can use, and what to do about what is missing."""
    from minivllm.doctor import report

    print("\n".join(report()))


@app.command("check-submission")
def check_submission(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="the .ipynb to hand in, or folders of them")],
) -> None:
    """Look at a notebook before you hand it in: what was lost or left blank, and how to mend it."""
    from minivllm.submission.check import check_file

    good = True
    for file in [file for path in files for file in _notebooks(path)]:
        problems = check_file(file)
        good = good and not problems
        print(f"{file.name}: {len(problems) or 'no'} problem{'s' * (len(problems) != 1)}")
        for problem in problems:
            print(f"- {problem}")
    raise typer.Exit(0 if good else 1)


def _notebooks(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    found = sorted(path.glob("*.ipynb"))
    if not found:
        raise UsageError(f"the folder {path} holds no .ipynb: name the notebook that you hand in")
    return found


@app.command()
def kernels(
    check: Annotated[
        bool, typer.Option("--check", help="compile every kernel for every kind of GPU; needs none")
    ] = False,
) -> None:
    """Compile the Triton kernels and show the registers, stack and shared memory that they take."""
    if not check:
        raise UsageError("minivllm kernels lacks --check: say minivllm kernels --check to compile them")
    from minivllm.kernels.compile_check import run as run_check

    raise typer.Exit(run_check())


def _writable(output: Path | None) -> Path | None:
    """Tried before the measurement, which takes minutes and would be lost."""
    if output is None:
        return None
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        is_new = not output.exists()
        output.open("a").close()
        if is_new:
            output.unlink()
    except OSError as error:
        raise typer.BadParameter(
            f"{output} can't be written ({error.strerror}): name a file in a folder of yours"
        ) from None
    return output


Runs = Annotated[int, typer.Option("--runs", min=1, help="runs of each measurement")]
Output = Annotated[
    Path | None,
    typer.Option("--output", metavar="FILE", callback=_writable, help="write the result as JSON too"),
]
Threads = Annotated[int | None, typer.Option("--threads", min=1, help="threads of torch")]


@bench_app.command("scheduler")
def bench_scheduler_command(
    vllm: Annotated[
        str | None,
        typer.Option("--vllm", metavar="PYTHON", help="an interpreter with vllm 0.28.0: time vLLM's scheduler too"),
    ] = None,
    runs: Runs = 5,
    output: Output = None,
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
    _write(output, result)


@bench_app.command("engine")
def bench_engine_command(
    model: Annotated[str, typer.Option(help="a name, a path or a Hugging Face id")] = "smollm2-135m-instruct",
    against: Annotated[str | None, typer.Option("--against", help="'transformers': the same weights beside it")] = None,
    runs: Runs = 3,
    threads: Threads = None,
    output: Output = None,
) -> None:
    """Tokens/s, time to first token (TTFT) and time between tokens (ITL)."""
    from minivllm.bench.engine import bench_engine

    if against not in (None, "transformers"):
        raise typer.BadParameter(f"--against is {against!r}, but only 'transformers' can be measured against")
    _write(output, bench_engine(model, against, runs, threads, report=print))


@bench_app.command("schedule-effects")
def bench_schedule_effects_command(
    model: Annotated[str, typer.Option(help="a name, a path or a Hugging Face id")] = "smollm2-135m-instruct",
    runs: Runs = 3,
    threads: Threads = None,
    output: Output = None,
) -> None:
    """The lesson's claims about performance, as ratios."""
    from minivllm.bench.schedule_effects import bench_schedule_effects

    _write(output, bench_schedule_effects(model, runs, threads, report=print))


def _write(output: Path | None, result: dict[str, Any]) -> None:
    if output is not None:
        output.write_text(json.dumps(result, indent=1) + "\n")


def run(app: Callable[..., Any], errors: tuple[type[Exception], ...]) -> None:
    """Runs a command line: bad input ends in one line on stderr and exit code 2, not in a traceback."""
    try:
        code = app(standalone_mode=False)
    except UsageError as error:
        message = error.format_message()  # type: ignore[attr-defined]
        is_help = type(error).__name__ == "NoArgsIsHelpError"  # a command line without a command
        code = _help(message) if is_help else _fail(message)
    except errors as error:
        code = _fail(str(error))
    except KeyboardInterrupt:
        code = 130
    sys.exit(code)


def _help(text: str) -> int:
    if text:  # else Rich has printed it
        print(text, file=sys.stderr)
    return 2


def _fail(message: str) -> int:
    print(f"error: {' '.join(message.split())}", file=sys.stderr)
    return 2


def main() -> None:
    run(app, (MinivllmError, OSError, ValueError))
