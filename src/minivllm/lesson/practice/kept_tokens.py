"""The check of `kept_tokens`: what a verification may keep, beside the engine's sampler."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from minivllm.lesson.practice.prepare_inputs import UNFILLED, unfilled
from minivllm.lesson.outcome import Outcome, door
from minivllm.lesson.table import Table, show

Tokens = list[int]
_COLUMNS = ("object", "expected", "actual", "why")
_EXAMPLES: tuple[tuple[Tokens, Tokens], ...] = (
    ([11, 12, 40, 7], [11, 12, 13]),
    ([40, 12, 13, 7], [11, 12, 13]),
    ([11, 12, 13, 7], [11, 12, 13]),
    ([9], []),
)


def _accepted(sampled: Sequence[int], drafts: Sequence[int]) -> Tokens:
    count = next((i for i, draft in enumerate(drafts) if draft != sampled[i]), len(drafts))
    return list(drafts[:count])


def _stop_after(sampled: Sequence[int], drafts: Sequence[int], stops: Callable[[int, int], bool]) -> Tokens:
    end = next((i + 1 for i, draft in enumerate(drafts) if stops(draft, sampled[i])), len(sampled))
    return list(sampled[:end])


_BELIEFS: tuple[tuple[Callable[[Tokens, Tokens], Tokens], str], ...] = (
    (lambda s, d: list(s), "every sampled token was kept; behind a rejected draft the model read a text that is none"),
    (_accepted, "the accepted drafts alone; the token that the model sampled itself is right, too, and is kept"),
    (
        lambda s, d: [token for i, token in enumerate(s) if i == len(d) or d[i] == token],
        "a draft behind a rejected one was accepted; what follows a rejected token has no meaning",
    ),
    (
        lambda s, d: _stop_after(s, d, lambda draft, token: draft == token),
        "the condition is the wrong way round: the first draft that differs ends it",
    ),
    (
        lambda s, d: list(s) if d == s[:-1] else s[:1],
        "all or nothing; drafts are accepted one by one up to the first that differs",
    ),
    (
        lambda s, d: [*d[: len(_accepted(s, d)) + 1], *([s[-1]] if _accepted(s, d) == d else [])],
        "the rejected draft was kept; the model's own token takes its place",
    ),
)


def check_kept_tokens(function: Any) -> None:
    """Call `function(sampled, drafts)` on examples and random cases, and compare with the engine's `verify`."""
    from minivllm.engine.sampler import verify

    if unfilled(function):
        show(f"kept_tokens: {UNFILLED}")
        return
    call = door({"kept_tokens": function})
    asked = [*_EXAMPLES, *_random_cases()]
    outcomes = [call("kept_tokens", sampled, drafts) for sampled, drafts in asked]
    for (sampled, drafts), outcome in zip(asked, outcomes, strict=True):
        expected = verify(sampled, drafts)
        name = f"kept_tokens({sampled}, {drafts})"
        if outcome.error is not None:
            show(Table(_COLUMNS, [(name, repr(expected), str(outcome.error), _WHY)]))
            return
        if outcome.value != expected:
            show(Table(_COLUMNS, [(name, repr(expected), f"{outcome.value!r:.120}", _belief(asked, outcomes))]))
            return
        if outcome.args_after != (sampled, drafts):
            show(Table(_COLUMNS, [(name, "its arguments as they were", "changed", "the scheduler counts with them")]))
            return
    show(f"kept_tokens: ok, {len(asked)} cases")


_WHY = (
    "drafts are accepted up to the first that differs from the sampled token; that sampled token is kept, and no other"
)


def _belief(asked: Sequence[tuple[Tokens, Tokens]], outcomes: Sequence[Outcome]) -> str:
    """The wrong idea that gives every answer; a call that raised says nothing against it."""
    for idea, sentence in _BELIEFS:
        if all(o.error or o.value == idea(*arguments) for arguments, o in zip(asked, outcomes, strict=True)):
            return sentence
    return _WHY


def _random_cases() -> Iterator[tuple[Tokens, Tokens]]:
    chance = random.Random(5)
    for count in range(12):
        drafts = [chance.randrange(3) for _ in range(count % 5)]
        yield [chance.choice((draft, chance.randrange(3))) for draft in (*drafts, 0)], drafts
