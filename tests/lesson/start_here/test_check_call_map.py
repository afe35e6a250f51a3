"""The map of calls and owners: recorded as the source has it, and wrong entries told by what was seen."""

import re
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from minivllm.core.sched.scheduler import Scheduler
from minivllm.lesson.common.errors import LessonError
from minivllm.lesson.outcome import ______
from minivllm.lesson.start_here.call_record import FUNCTIONS, STATES, call_record
from minivllm.lesson.start_here.check_call_map import call_graph, check_callers, check_owners
from tests.lesson.notebooks import LANGUAGES, prose
from tests.lesson.start_here.notebook import NAME, defined


def test_the_recorded_call_graph_is_the_one_of_the_source() -> None:
    ways = {function: set(call_record().callers(function)) for function in FUNCTIONS}
    assert ways == {
        "Scheduler.add_request": set(),
        "Scheduler.schedule": set(),
        "Scheduler.update_from_output": set(),
        "Scheduler._preempt_request": {"Scheduler.schedule"},
        "KVCacheManager.get_computed_blocks": {"Scheduler.schedule"},
        "KVCacheManager.allocate_slots": {"Scheduler.schedule"},
        "KVCacheManager.free": {"Scheduler._preempt_request", "Scheduler.update_from_output"},
        "BlockPool.get_cached_block": {"KVCacheManager.get_computed_blocks"},
        "BlockPool.touch": {"KVCacheManager.allocate_slots"},
        "BlockPool.get_new_blocks": {"KVCacheManager.allocate_slots"},
        "BlockPool.cache_full_blocks": {"KVCacheManager.allocate_slots"},
        "BlockPool.free_blocks": {"KVCacheManager.free"},
    }


def test_calls_are_counted_as_the_scheduler_made_them() -> None:
    calls = call_record().calls
    assert calls["Scheduler.schedule",] == calls["Scheduler.update_from_output",] > 0
    assert calls["Scheduler.add_request",] == 2
    assert calls["Scheduler.schedule", "Scheduler._preempt_request"] == 1
    assert calls["Scheduler.update_from_output", "KVCacheManager.free"] == 2


def test_states_are_found_where_they_are_and_changed_by_whom_they_are() -> None:
    record = call_record()
    assert {state: record.holders[state].name for state in STATES} == {
        "running": "Scheduler",
        "num_computed_tokens": "Request",
        "req_to_blocks": "FullAttentionManager",
        "ref_cnt": "KVCacheBlock",
        "block_hash": "KVCacheBlock",
        "free_block_queue": "BlockPool",
    }
    assert {state: set(record.writers[state]) for state in STATES} == {
        "running": {"Scheduler.schedule", "Scheduler.update_from_output"},
        "num_computed_tokens": {"Scheduler.schedule", "Scheduler._preempt_request", "Scheduler.update_from_output"},
        "req_to_blocks": {"KVCacheManager.allocate_slots", "KVCacheManager.free"},
        "ref_cnt": {"BlockPool.get_new_blocks", "BlockPool.touch", "BlockPool.free_blocks"},
        "block_hash": {"BlockPool.cache_full_blocks", "BlockPool.get_new_blocks"},
        "free_block_queue": {"BlockPool.get_new_blocks", "BlockPool.touch", "BlockPool.free_blocks"},
    }


def test_watching_leaves_no_profiler_behind_and_keeps_one_that_was_there() -> None:
    call_record.cache_clear()
    seen: list[str] = []
    mine = lambda frame, event, arg: seen.append(event)  # noqa: E731
    sys.setprofile(mine)
    try:
        call_record()
        assert sys.getprofile() is mine
    finally:
        sys.setprofile(None)
    assert threading.getprofile() is None


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ({"BlockPool.touch": "KVCacheManager.get_computed_blocks"}, "the lookup changes no ref count"),
        ({"BlockPool.get_new_blocks": "Scheduler.schedule"}, "the scheduler never takes a block itself"),
        ({"BlockPool.free_blocks": "Scheduler._preempt_request"}, "the scheduler never gives a block back itself"),
        ({"KVCacheManager.free": "KVCacheManager.allocate_slots"}, "a failed allocation frees nobody"),
        ({"KVCacheManager.free": "nobody"}, "(Scheduler.update_from_output or Scheduler._preempt_request)"),
        ({"KVCacheManager.allocate_slots": 7}, "write one of the twelve names, in quotes"),
        ({"KVCacheManager.allocate_slots": ["Scheduler.schedule"]}, "write one of the twelve names, in quotes"),
        ({"KVCacheManager.allocate_slots": "schedule"}, "write one of the twelve names, in quotes"),
        ({"KVCacheManager.allocate_slots": Scheduler.schedule}, "write one of the twelve names, in quotes"),
        ({"BlockPool.touch": ______}, "BlockPool.touch: replace every ______ by a name"),
    ],
)
def test_a_wrong_caller_is_told_by_what_was_seen(
    entry: dict[str, Any], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    check_callers(entry)
    assert told in capsys.readouterr().out


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ({"ref_cnt": ("BlockPool", "BlockPool.touch")}, "the live KVCacheBlock has it as an attribute of its own"),
        ({"ref_cnt": ("KVCacheBlock", "KVCacheManager.get_computed_blocks")}, "in the run it changed during"),
        ({"running": ("KVCacheManager", "Scheduler.schedule")}, "the live Scheduler has it"),
        ({"running": "Scheduler"}, "two names: who holds it, what changes it"),
        ({"running": (1, None)}, "the live Scheduler has it"),
        ({"running": ("Scheduler", ______)}, "running: replace every ______ by a name"),
        ({"running": ______}, "running: replace every ______ by a name"),
    ],
)
def test_a_wrong_owner_is_told_by_the_live_objects(
    entry: dict[str, Any], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    check_owners(entry)
    assert told in capsys.readouterr().out


def test_a_base_class_of_the_holder_is_right_too(capsys: pytest.CaptureFixture[str]) -> None:
    check_owners({"req_to_blocks": ("SingleTypeKVCacheManager", "KVCacheManager.free")})
    assert "differs" not in capsys.readouterr().out
    check_owners({"req_to_blocks": ("KVCacheManager", "KVCacheManager.free")})
    assert "the live FullAttentionManager has it" in capsys.readouterr().out


@pytest.mark.parametrize("check", [check_callers, check_owners])
def test_an_entry_that_the_run_does_not_know_is_refused(check: Callable[..., None]) -> None:
    with pytest.raises(LessonError, match=r"has an entry 'BlockPool.steal', but the run knows .*: keep the keys"):
        check({"BlockPool.steal": "me"})


def test_the_answers_of_the_map_pass(capsys: pytest.CaptureFixture[str]) -> None:
    check_callers(defined("called_by = {"))
    check_owners(defined("owners = {"))
    told = capsys.readouterr().out.splitlines()
    assert len(told) == 6 + 12 and all(": ok, " in line for line in told)


def test_the_graph_is_shown_with_the_functions_that_the_notebook_names() -> None:
    shown = [str(row[0]).strip() for row in call_graph().rows]
    assert set(shown) == set(FUNCTIONS)
    for language in LANGUAGES:
        text = next(text for text in prose(NAME, language) if "`BlockPool.cache_full_blocks`" in text)
        assert set(re.findall(r"`(\w+\.\w+)`", text)) - {"Class.function"} == set(FUNCTIONS)
        assert len(FUNCTIONS) == 12 and ("twelve" in text or "十二" in text)
