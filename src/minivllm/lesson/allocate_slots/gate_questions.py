"""What 3-allocate-slots asks of watermark, full-sequence gate and hybrid groups: each answer is a run of the engine."""

from dataclasses import replace

from minivllm.kv_cache_interface import FullAttentionSpec, SlidingWindowSpec
from minivllm.lesson.common.cost import cost
from minivllm.lesson.common.load import Arrival, Load
from minivllm.lesson.common.question import Answer, Question
from minivllm.lesson.common.run import Run, record

WATERMARK = Load([Arrival("A", prompt=38), Arrival("B", prompt=15, step=1)], budget=64, blocks=20)
ALONE = Load([Arrival("A", prompt=60)], budget=64, blocks=20, watermark=0.5)
GATE = Load([Arrival("A", prompt=17), Arrival("B", prompt=24, step=1)], budget=20, blocks=11)
RESERVE = Load([Arrival("B", prompt=24), Arrival("C", prompt=20)], budget=16, blocks=9, long_prefill_token_threshold=8)
DECODES = Load([Arrival("A", prompt=11), Arrival("B", prompt=11)], budget=32, blocks=7)
HYBRID = Load(
    [Arrival("A", prompt=20, max_tokens=24)],
    budget=64,
    blocks=25,
    kv_cache_groups=(FullAttentionSpec(), SlidingWindowSpec(8)),
)


def _preemptions(load: Load) -> int:
    return cost(record(load)).preemptions


_WATERMARKS = {f"B, watermark {watermark}": watermark for watermark in (0.0, 0.25, 0.3)}
_NOBODY_RUNS = "A alone, watermark 0.5"


def _watermark() -> Answer:
    actual, why = {}, {}
    for name, watermark in _WATERMARKS.items():
        load = replace(WATERMARK, watermark=watermark)
        step = Run.after(load, 1).schedule()
        actual[name] = "yes" if "B" in step.scheduled else "no"
        kept = int(watermark * load.blocks)
        verdict = "<=" if actual[name] == "yes" else ">"
        why[name] = f"4 blocks + int({watermark} * {load.blocks}) = {4 + kept} {verdict} {step.free_blocks} free"
    step = Run(ALONE).step()
    actual[_NOBODY_RUNS] = "yes" if "A" in step.scheduled else "no"
    why[_NOBODY_RUNS] = "nobody runs, so the watermark does not count; otherwise the engine could idle for ever"
    return Answer(actual, why)


_GATES = {"gate on": True, "gate off": False}


def _gate() -> Answer:
    actual: dict[str, int | str] = {}
    for gate, on in _GATES.items():
        load = replace(GATE, scheduler_reserve_full_isl=on)
        actual[f"tokens of B, {gate}"] = Run.after(load, 1).schedule().scheduled.get("B", 0)
        actual[f"preemptions, {gate}"] = _preemptions(load)
    return Answer(
        actual,
        {
            "tokens of B, gate on": "all 24 known tokens need 6 blocks, 5 are free: B waits",
            "preemptions, gate on": "B came when all of its prompt fitted",
            "tokens of B, gate off": "19 tokens of budget need 5 blocks, 5 are free: the first chunk gets in",
            "preemptions, gate off": "its second chunk found no block, and B lost its first one",
        },
    )


_HELD, _ADMITTED, _PREEMPTED = "blocks of B", "tokens of C", "preemptions"


def _gate_reserves_nothing() -> Answer:
    run = Run(RESERVE)
    step = run.step()
    (table,) = run.tables_of("B")
    return Answer(
        {_HELD: len(table), _ADMITTED: step.scheduled.get("C", 0), _PREEMPTED: _preemptions(RESERVE)},
        {
            _HELD: "the gate looked for 6 free blocks; the first chunk of 8 tokens took 2",
            _ADMITTED: "6 blocks are free again for the next look, and C needs 5: it passes the gate too",
            _PREEMPTED: "11 blocks were promised out of 8: a later chunk of B preempts C",
        },
    )


def _gate_and_decode() -> Answer:
    why = "both prompts fit and the gate lets them in; the blocks of later outputs are not looked at"
    return Answer(
        {gate: _preemptions(replace(DECODES, scheduler_reserve_full_isl=on)) for gate, on in _GATES.items()},
        dict.fromkeys(_GATES, why),
    )


_MOMENTS = (20, 41)
_GROUPS = ("full attention", "sliding window")


def _window() -> Answer:
    run = Run(HYBRID)
    actual: dict[str, int | str] = {}
    while run.scheduler.requests or not run.num_steps:
        run.arrive()
        step = run.schedule()
        computed = step.after["A"].computed
        if computed in _MOMENTS:
            for group, table in zip(_GROUPS, run.tables_of("A"), strict=True):
                actual[f"{group}, {computed} computed"] = len([block for block in table if block])
        run.answer(step)
    return Answer(
        actual,
        {
            "full attention, 20 computed": "every token is read again",
            "sliding window, 20 computed": "the step that computes 20 tokens needs 20 slots, window or not",
            "full attention, 41 computed": "every token is read again",
            "sliding window, 41 computed": "token 41 reads 8 tokens, 34 to 41, which lie in 3 blocks",
        },
    )


GATES: tuple[Question, ...] = (
    Question("watermark", "Is the request admitted?", (*_WATERMARKS, _NOBODY_RUNS), _watermark, choices=("yes", "no")),
    Question(
        "full_sequence_gate",
        "How many tokens does B get in step 1, and how many preemptions does the load see?",
        tuple(f"{what}, {gate}" for gate in _GATES for what in ("tokens of B", "preemptions")),
        _gate,
    ),
    Question(
        "gate_reserves_nothing",
        "How many blocks does B hold after step 0, how many tokens did C get in it, and how many preemptions follow?",
        (_HELD, _ADMITTED, _PREEMPTED),
        _gate_reserves_nothing,
    ),
    Question("gate_and_decode", "How many preemptions does the load see?", tuple(_GATES), _gate_and_decode),
    Question(
        "window_blocks",
        "How many blocks does each group hold, null blocks apart?",
        tuple(f"{group}, {computed} computed" for computed in _MOMENTS for group in _GROUPS),
        _window,
    ),
)
