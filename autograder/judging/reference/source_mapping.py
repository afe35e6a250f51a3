"""Hidden tests of ``source_mapping``: where the planner stands in vLLM's source, a quarter point for each entry."""

from __future__ import annotations

import re
from collections.abc import Callable

from autograder.judging.parts import Lost, Part, grade_cell
from autograder.judging.reference import admission_gates, scheduler_regions
from minivllm.lesson.outcome import Call

NAME = "source_mapping"
FILE = "vllm/v1/core/sched/scheduler.py"
VERSION = "v0.28.0"
COMMIT = "2cf0a6915ce544dc493a0990f2ea38d81601128a"
MAX_LINES = 12


def entry(call: Call, key: str) -> str:
    outcome = call(NAME)
    if outcome.error and outcome.error.is_a("minivllm.lesson.outcome.NotDefined"):
        raise Lost(f"{NAME} is not defined: expected a dict of that name, found none; keep the exercise's name")
    if outcome.error:
        raise Lost(
            f"{NAME} could not be read: expected a dict, got {outcome.error}; fill in its entries and keep the name"
        )
    mapping = outcome.value
    if not isinstance(mapping, dict) or key not in mapping:
        raise Lost(
            f"{NAME}[{key!r}] is missing: expected a dict with this key, got {mapping!r:.80}; keep the four keys"
        )
    text = mapping[key]
    if not isinstance(text, str) or not text.strip() or "______" in text:
        raise Lost(f"{NAME}[{key!r}] is not filled in: expected a str, got {text!r:.80}; replace its ______")
    return text.strip()


def lost(key: str, expected: str, got: str, why: str) -> Lost:
    return Lost(f"{NAME}[{key!r}]: expected {expected}, got {got}; {why}")


# --- the progress counter -------------------------------------------------------------------------------------------

FIELD = "num_computed_tokens"
OWNER_OF_FIELD = re.compile(rf"([A-Za-z_]\w*)(?:\[[^\]]*\])?[`'\"]*(?:\.|::|#|->)[`'\"]*{FIELD}\b", re.ASCII)
REQUEST = re.compile(r"(?<![A-Za-z0-9_])(Request|request|req|请求)(?![A-Za-z0-9_])", re.ASCII)
OTHER_OWNERS = re.compile(
    r"\b(Scheduler(?:Output)?|scheduler|KVCacheManager|BlockPool|(?:New|Cached)RequestData|self)\b", re.ASCII
)
OTHER_FIELDS = {
    "num_tokens_with_spec": "that is where a request has to get to, not how far it is",
    "num_tokens": "that is where a request has to get to, not how far it is",
    "num_prompt_tokens": "the prompt's length never changes, so it can't tell progress",
    "num_scheduled_tokens": "that is the share of one step; what all steps add up to is kept elsewhere",
    "token_budget": "the budget belongs to a step and starts anew in the next one",
}


ALTERNATIVES = re.compile(r"\bor\b|\beither\b|\band\b|[/、|;；,，&\n]|或者?|还是|以及|和|与", re.IGNORECASE)
OTHER_ALTERNATIVE = re.compile(
    rf"(?:{FIELD} *(?:of|in|on|属于|归|在)? *)?(?:the |an? |its |each |every )*"
    r"(?:(?P<owner>Scheduler(?:Output)?|scheduler|KVCacheManager|kv cache manager|BlockPool|block pool|InputBatch"
    r"|(?:gpu )?model ?runner|worker|engine|executor|(?:New|Cached)RequestData|self|调度器|块池)s?(?:'s)?"
    rf"(?:(?:[.:#]+|的| )+\w+)?|(?:\w+\.)?(?:{'|'.join(OTHER_FIELDS)}))",
    re.IGNORECASE,
)


def other_alternative(text: str) -> str | None:
    """What stands beside the right owner or field as if either would do; said of it alone, it names no owner."""
    parts = [part.strip(" \t`'\".()（）。") for part in ALTERNATIVES.split(text)]
    if len(parts) < 2:
        return None
    return next((part for part in parts if OTHER_ALTERNATIVE.fullmatch(part)), None)


def progress_counter(call: Call) -> None:
    key = "progress_counter"
    text = entry(call, key)
    expected = "the object and the field that tell how many tokens of a request are computed, as Object.field"
    if not re.search(rf"(?<![A-Za-z0-9_]){FIELD}(?![A-Za-z0-9_])", text):
        named = next((why for name, why in OTHER_FIELDS.items() if re.search(rf"\b{name}\b", text, re.ASCII)), None)
        raise lost(key, expected, repr(text), named or "the planner reads this number as computed")
    other = other_alternative(text)
    if other:
        raise lost(key, expected, repr(text), f"{other!r} is offered as well, and one thing is asked for: name one")
    owner = OWNER_OF_FIELD.search(text)
    if owner and owner[1] in ("Request", "request", "requests", "req"):
        return
    found = owner or OTHER_OWNERS.search(text)
    if found:
        raise lost(
            key,
            expected,
            repr(text),
            f"{found[1]} does not own it: each request's progress is kept on an object of its own",
        )
    if not REQUEST.search(text):
        raise lost(key, expected, repr(text), "the field is right, but the object that owns it is not named")


# --- the lines that charge the budget -------------------------------------------------------------------------------


def lines_of(key: str, text: str, expected: str) -> tuple[int, int]:
    """First and last line of a place such as ``scheduler.py#L699-L701`` or a permalink."""
    commit = re.search(r"github\.com/[^/\s]+/[^/\s]+/(?:blob|blame|tree)/([^/\s]+)/", text)
    if commit and commit[1] != VERSION and not (len(commit[1]) >= 7 and COMMIT.startswith(commit[1].lower())):
        raise lost(
            key, expected, f"a link to {commit[1]}", f"the lines of this course are those of {VERSION} ({COMMIT[:12]})"
        )
    rest = text[commit.end() :] if commit else text
    file = re.search(r"[\w./-]+\.py", rest, re.ASCII)
    if file and not f"/{FILE}".endswith(f"/{file[0].lstrip('./')}"):
        raise lost(key, expected, f"the file {file[0]}", f"the budget is charged in {FILE}")
    rest = rest[file.end() :] if file else rest.replace(VERSION, "")
    numbers = [int(number) for number in re.findall(r"(?<![A-Za-z0-9_.])L?(\d{1,9})(?![A-Za-z0-9_])", rest)]
    if not numbers:
        raise lost(key, expected, repr(text), "no line is named: write file#Lx-Ly")
    return min(numbers), max(numbers)


def charge(key: str, loop: str, lines: range) -> Callable[[Call], None]:
    expected = f"the line that charges the token budget in the {loop} loop of {VERSION}"

    def check(call: Call) -> None:
        text = entry(call, key)
        first, last = lines_of(key, text, expected)
        place = f"L{first}" if first == last else f"L{first}-L{last}"
        found = scheduler_regions.regions(first, last)
        told = found[0] if len(found) == 1 else f"a range from {found[0]} to {found[-1]}"
        if last - first >= MAX_LINES:
            several = len(re.findall(r"\bor\b|\band\b|[,，、;；]|或|和|还是", text)) + 1
            why = f"{last - first + 1} lines are too many to tell which one you mean (at most {MAX_LINES})"
            why = f"{several} places are named: name one" if several > 1 else why
            raise lost(key, expected, f"{place}, which is {told}", why)
        if not any(first <= line <= last for line in lines):
            raise lost(
                key, expected, f"{place}, which is {told}", "look for the statement that makes the budget smaller"
            )

    return check


# --- a gate that is not about tokens --------------------------------------------------------------------------------


def other_gate(call: Call) -> None:
    key = "other_gate"
    text = entry(call, key)
    expected = "a condition of admission that is not about tokens"
    named = admission_gates.named(text)
    if named.gate:
        return
    if named.choice:
        raise lost(key, expected, repr(text), f"{named.choice}, and one is asked for: name one that you are sure of")
    if named.about_tokens:
        raise lost(
            key,
            expected,
            repr(text),
            f"{named.about_tokens} counts tokens: name what can refuse a request while budget is left",
        )
    raise lost(
        key,
        expected,
        repr(text),
        "no gate of the WAITING loop is named: name the resource, limit or status that it asks for",
    )


PARTS = (
    Part("progress_counter", 0.25, progress_counter),
    Part("running_charge", 0.25, charge("running_charge", "RUNNING", scheduler_regions.RUNNING_CHARGE)),
    Part("waiting_charge", 0.25, charge("waiting_charge", "WAITING", scheduler_regions.WAITING_CHARGE)),
    Part("other_gate", 0.25, other_gate),
)


def grade_source_mapping(call: Call) -> float:
    return grade_cell(PARTS, call)
