"""The checks of 0-start-here's map: who calls whom, and who owns which state, held against a recorded run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from minivllm.lesson.common.checks import check
from minivllm.lesson.common.errors import LessonError
from minivllm.lesson.common.table import Table, show
from minivllm.lesson.outcome import Blank
from minivllm.lesson.start_here.call_record import FUNCTIONS, call_record

_WHY_NOT = {
    ("BlockPool.touch", "KVCacheManager.get_computed_blocks"): "the lookup changes no ref count; the touch comes later",
    ("KVCacheManager.free", "KVCacheManager.allocate_slots"): "a failed allocation frees nobody: it returns None",
    ("BlockPool.get_new_blocks", "Scheduler.schedule"): "the scheduler never takes a block itself",
    ("BlockPool.free_blocks", "Scheduler._preempt_request"): "the scheduler never gives a block back itself",
}


def call_graph() -> Table:
    """Which of the functions of the reading called which in a small run with a prefix hit and a preemption."""
    return call_record().table


def check_callers(called_by: Mapping[str, Any]) -> None:
    """Compare the caller of each function with those that a run of the engine was seen to have."""
    _check_keys("called_by", called_by, tuple(name for name in FUNCTIONS if call_record().callers(name)))
    for function, caller in called_by.items():
        name = f"who calls {function}"
        if _is_blank(caller):
            continue
        callers = call_record().callers(function)
        right = caller if isinstance(caller, str) and caller in callers else callers[0]
        either = f" ({' or '.join(callers)})" if len(callers) > 1 else ""
        check(name, expected=right, actual=_as_given(caller), why=f"{_why_not(function, caller)}{either}")
    _ask_for(called_by)


def _why_not(function: str, caller: object) -> str:
    if isinstance(caller, str) and caller in FUNCTIONS:
        return _WHY_NOT.get((function, caller), "seen in a run of the engine")
    return 'write one of the twelve names, in quotes and as they stand above: "Class.function"'


def _as_given(entry: object) -> object:
    """What `check` shows, and does not call: a reader may have written the function itself."""
    return repr(entry) if callable(entry) else entry


def check_owners(owners: Mapping[str, Any]) -> None:
    """Compare each state's holder and one function that changes it with the live objects of a run."""
    record = call_record()
    _check_keys("owners", owners, tuple(record.holders))
    for state, entry in owners.items():
        if _is_blank(entry):
            continue
        if not isinstance(entry, tuple | list) or len(entry) != 2:
            check(state, expected="(class, function)", actual=entry, why="two names: who holds it, what changes it")
            continue
        owner, writer = entry
        kinds, writers = record.holders[state].kinds, list(record.writers[state])
        check(
            f"{state}, held by",
            expected=owner if owner in kinds else kinds[0],
            actual=_as_given(owner),
            why=f"the live {kinds[0]} has it as an attribute of its own, and no other object does",
        )
        check(
            f"{state}, changed by",
            expected=writer if writer in writers else writers[0],
            actual=_as_given(writer),
            why=f"in the run it changed during {', '.join(writers)}",
        )
    _ask_for(owners)


def _is_blank(entry: Any) -> bool:
    return isinstance(entry, Blank) or (isinstance(entry, tuple | list) and any(map(_is_blank, entry)))


def _ask_for(given: Mapping[str, Any]) -> None:
    """One sentence about all entries that hold a blank."""
    left = [key for key, entry in given.items() if _is_blank(entry)]
    if left:
        show(f"{', '.join(left)}: replace every ______ by a name and run the cell again")


def _check_keys(name: str, given: Any, known: tuple[str, ...]) -> None:
    if not isinstance(given, Mapping):
        raise LessonError(f"{name} is {type(given).__name__}, but the check reads a dict: keep its keys")
    unknown = [key for key in given if key not in known]
    if unknown:
        raise LessonError(f"{name} has an entry {unknown[0]!r}, but the run knows {', '.join(known)}: keep the keys")
