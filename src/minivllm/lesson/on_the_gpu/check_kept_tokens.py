"""The check of `kept_tokens`: what a verification may keep, beside the engine's sampler."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from minivllm.lesson.common.checks import Student, Wrong, call_on_copies, report, same

Tokens = list[int]
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


def check_kept_tokens(function: Student) -> None:
    """Call `function(sampled, drafts)` on examples and random cases, and compare with the engine's `verify`."""
    report("kept_tokens", lambda: _compare(function))


def _compare(function: Student) -> str:
    from minivllm.engine.sampler import verify

    asked = [*_EXAMPLES, *_random_cases()]
    answers = [_ask(function, sampled, drafts, verify(sampled, drafts)) for sampled, drafts in asked]
    for (sampled, drafts), answer in zip(asked, answers, strict=True):
        if isinstance(answer, Wrong):
            raise answer
        expected = verify(sampled, drafts)
        if not same(answer, expected):
            raise Wrong(_name(sampled, drafts), expected, repr(answer), _belief(asked, answers))
    return f"{len(asked)} cases"


def _ask(function: Student, sampled: Tokens, drafts: Tokens, expected: Tokens) -> Any:
    """What the function returns, or what is wrong about the call: an earlier answer may have more to say."""
    counts = "the scheduler counts with its arguments: read them, don't edit them"
    try:
        return call_on_copies(
            _name(sampled, drafts), function, sampled, drafts, expected=expected, why=_WHY, owner=counts
        )
    except Wrong as wrong:
        return wrong


def _name(sampled: Tokens, drafts: Tokens) -> str:
    return f"kept_tokens({sampled}, {drafts})"


_WHY = (
    "drafts are accepted up to the first that differs from the sampled token; that sampled token is kept, and no other"
)


def _belief(asked: Sequence[tuple[Tokens, Tokens]], answers: Sequence[Any]) -> str:
    """The wrong idea that gives every answer; a call that failed says nothing against it."""
    given = [
        (arguments, answer) for arguments, answer in zip(asked, answers, strict=True) if not isinstance(answer, Wrong)
    ]
    for idea, sentence in _BELIEFS:
        if all(same(answer, idea(*arguments)) for arguments, answer in given):
            return sentence
    return _WHY


def _random_cases() -> Iterator[tuple[Tokens, Tokens]]:
    chance = random.Random(5)
    for count in range(12):
        drafts = [chance.randrange(3) for _ in range(count % 5)]
        yield [chance.choice((draft, chance.randrange(3))) for draft in (*drafts, 0)], drafts
