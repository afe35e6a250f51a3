"""`python -m autograder score-answers`: the scorer held against labelled answers."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from autograder.judging.rubric.agreement import Agreement
from autograder.judging.rubric.answers import AnswersError, Scored, agreements, read_answers
from autograder.judging.rubric.answers import score_answers as score_all
from minivllm.cli import UsageError


def score_answers(
    file: Annotated[Path, typer.Argument(help="labelled answers, one JSON object a line", metavar="FILE.jsonl")],
    as_json: Annotated[bool, typer.Option("--json", help="numbers only, one JSON object")] = False,
) -> None:
    """Suggest points for labelled answers to Q1-Q3 and compare them with the labels.

    kappa has quadratic weights. Abstentions count as their suggestion; coverage is the share that is not abstained.
    Kinds of answers come from FILE.categories.jsonl where it lies beside; the scorer does not read it.
    """
    try:
        scored = score_all(read_answers(file))
    except AnswersError as error:
        raise UsageError(" ".join(str(error).split())) from None
    results = agreements(scored)
    if as_json:
        print(json.dumps({name: result._asdict() for name, result in results.items()}))
        return
    console = Console(width=None if sys.stdout.isatty() else 120)
    console.print(_numbers(results))
    console.print(_kinds(scored))
    for one in scored:
        if one.off:
            suggested = f"{one.suggestion.points:g} for {one.answer.points:g}"
            abstained = ", abstained" if one.suggestion.abstains else ""
            console.print(Text(f"{one.answer.id}  {one.answer.kind}  {suggested}{abstained}"))


def _numbers(results: dict[str, Agreement]) -> Table:
    table = Table("", *results, title="suggestions against labels", title_justify="left")
    for field in Agreement._fields:
        table.add_row(field, *(_written(getattr(result, field)) for result in results.values()))
    return table


def _kinds(scored: list[Scored]) -> Table:
    by_kind: dict[str, list[Scored]] = defaultdict(list)
    for one in scored:
        by_kind[one.answer.kind].append(one)
    table = Table(
        "kind", "n", "wrong", "too high", "by 1 or more", "abstained", title="errors by kind", title_justify="left"
    )
    for kind, of in sorted(by_kind.items(), key=lambda item: (-sum(one.off != 0 for one in item[1]), item[0])):
        counts = (
            len(of),
            sum(one.off != 0 for one in of),
            sum(one.off > 0 for one in of),
            sum(one.off >= 1 for one in of),
            sum(one.suggestion.abstains for one in of),
        )
        table.add_row(Text(kind), *map(str, counts))
    return table


def _written(value: float | int | None) -> str:
    if value is None:
        return "-"
    return str(value) if isinstance(value, int) else f"{value:.3f}"
