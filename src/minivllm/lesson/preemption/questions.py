"""What the notebook 4-preemption asks: each answer is a run of the engine."""

from collections.abc import Mapping

from minivllm.lesson.common.cost import cost
from minivllm.lesson.common.load import Arrival, Load
from minivllm.lesson.common.question import Answer, Question
from minivllm.lesson.common.run import Run, record
from minivllm.lesson.common.watch import Step
from minivllm.lesson.common.why import explain

SHORTAGE = Load([Arrival("A", prompt=8), Arrival("B", prompt=2), Arrival("C", prompt=14)], budget=32, blocks=8)
NEWCOMER = Load([*SHORTAGE.arrivals, Arrival("D", prompt=2, step=1)], budget=32, blocks=8)
ROLLBACK = Load(
    [Arrival("low", prompt=6, priority=5), Arrival("high", prompt=4, priority=0, step=1)],
    budget=16,
    blocks=4,
    policy="priority",
)
SELF_VICTIM = Load(
    [Arrival("low", prompt=7, priority=5), Arrival("high", prompt=2, priority=0, step=1)],
    budget=16,
    blocks=4,
    policy="priority",
)
URGENT = Load(
    [Arrival("batch", prompt=12, priority=5), Arrival("urgent", prompt=8, priority=0, step=1)],
    budget=32,
    blocks=5,
    policy="priority",
)
SHARED = Load(
    [Arrival("A", prompt=10, shared=8, max_tokens=6), Arrival("B", prompt=10, shared=8, max_tokens=6)],
    budget=32,
    blocks=5,
)
STOPS = Load(
    [Arrival("Q", prompt=20, max_tokens=11), Arrival("R", prompt=40, max_tokens=12)], budget=64, blocks=6, block_size=16
)
GOES_ON = Load(
    [Arrival("Q", prompt=20, max_tokens=16), Arrival("R", prompt=40, max_tokens=12)], budget=64, blocks=6, block_size=16
)
_CROWD = tuple(Arrival(f"r{index}", prompt=48, max_tokens=32) for index in range(12))
THRASH = {
    "gate on, watermark 0": Load(_CROWD, budget=24, blocks=49),
    "gate off, watermark 0": Load(_CROWD, budget=24, blocks=49, scheduler_reserve_full_isl=False),
    "gate on, watermark 0.2": Load(_CROWD, budget=24, blocks=49, watermark=0.2),
    "gate off, watermark 0.2": Load(_CROWD, budget=24, blocks=49, scheduler_reserve_full_isl=False, watermark=0.2),
}
_EIGHT = tuple(Arrival(f"r{index}", prompt=30, max_tokens=60) for index in range(8))
CAPS = {
    f"max_num_seqs={cap}": Load(_EIGHT, budget=256, blocks=17, block_size=16, max_num_seqs=cap) for cap in (2, 4, 8)
}


def _until_preemption(load: Load) -> tuple[Run, Step]:
    """`load` up to the step of its first preemption; the model has not answered that step yet."""
    run = Run(load)
    while True:
        run.arrive()
        step = run.schedule()
        if step.output.preempted_req_ids:
            return run, step
        run.answer(step)


def _victim() -> Answer:
    _, step = _until_preemption(SHORTAGE)
    running = [view.request_id for view in step.before if view.status == "running"]
    (victim,) = step.output.preempted_req_ids
    lost = {view.request_id: view.computed for view in step.before}[victim]
    why = (
        f"fcfs takes the tail of running {running}; that it loses the most, {lost} computed tokens, counts for nothing"
    )
    return Answer({"victim": victim}, {"victim": why}, (step,))


def _pool() -> Answer:
    run, step = _until_preemption(SHORTAGE)
    pool = run.scheduler.kv_cache_manager.block_pool
    return Answer(
        actual={"blocks in the pool": len(pool.blocks), "free blocks": pool.get_num_free_blocks()},
        why={
            "blocks in the pool": "made once, before the first request; a shortage adds none and asks CUDA for nothing",
            "free blocks": f"{step.free_blocks} before; C gave back {_num_blocks(14, SHORTAGE)}, and A took 1 of them",
        },
    )


def _num_blocks(num_tokens: int, load: Load) -> int:
    return -(-num_tokens // load.block_size)


def _kept_and_lost() -> Answer:
    run, step = _until_preemption(SHARED)
    request = run.scheduler.requests["B"]
    shared = run.scheduler.kv_cache_manager.get_blocks("A").blocks[0][0]
    before = next(view for view in step.before if view.request_id == "B")
    return Answer(
        actual={
            "num_computed_tokens": request.num_computed_tokens,
            "output tokens": request.num_output_tokens,
            "ref count of a shared block": shared.ref_cnt,
        },
        why={
            "num_computed_tokens": f"was {before.computed}; it holds no table any more, so nothing counts as computed",
            "output tokens": f"the Request owns its {request.num_tokens} known tokens; a preemption takes none of them",
            "ref count of a shared block": "B dropped its reference, A still holds the block: 2 - 1",
        },
    )


def _own_prefix() -> Answer:
    actual, why = {}, {}
    for name, load in {"Q stops": STOPS, "Q goes on": GOES_ON}.items():
        run = Run(load)
        step = run.step()
        while not step.output.scheduled_resumed_reqs:
            step = run.step()
        actual[name], why[name] = step.scheduled["R"], explain(step, "R")
    return Answer(actual, why)


def _newcomer() -> Answer:
    run, step = _until_preemption(NEWCOMER)
    run.answer(step)
    steps = {"step 1": step, "step 2": run.step()}
    return Answer(
        actual={name: it.scheduled.get("D", 0) for name, it in steps.items()},
        why={name: explain(it, "D") for name, it in steps.items()},
        steps=tuple(steps.values()),
    )


def _urgent() -> Answer:
    run = Run(URGENT)
    run.step()
    step = run.step()
    preempted = step.output.preempted_req_ids
    return Answer(
        actual={
            "batch": step.scheduled.get("batch", 0),
            "urgent": step.scheduled.get("urgent", 0),
            "preempted": len(preempted),
        },
        why={
            "batch": explain(step, "batch"),
            "urgent": explain(step, "urgent"),
            "preempted": "a failed admission ends the pass over waiting; only a running request's failure preempts",
        },
        steps=(step,),
    )


def _rollback() -> Answer:
    _, step = _until_preemption(ROLLBACK)
    return Answer(
        actual={
            "low": step.scheduled.get("low", 0),
            "high": step.scheduled.get("high", 0),
            "budget left": step.left,
        },
        why={
            "low": "scheduled first in this step, then chosen as the victim: its token and its row are taken back",
            "high": explain(step, "high"),
            "budget left": f"{step.budget} - {step.output.total_num_scheduled_tokens}: the victim's token was refunded",
        },
        steps=(step,),
    )


def _self_victim() -> Answer:
    _, step = _until_preemption(SELF_VICTIM)
    return Answer(
        actual={name: step.scheduled.get(name, 0) for name in ("low", "high")},
        why={
            "low": "it asked for a block, and is itself the largest (priority, arrival) of running",
            "high": explain(step, "high"),
        },
        steps=(step,),
    )


def _compared(before: int, after: int) -> str:
    return "the same" if before == after else "more" if after > before else "fewer"


_DEFAULT, _GATE_OFF, _WATERMARK = "gate on, watermark 0", "gate off, watermark 0", "gate on, watermark 0.2"


def _gate_and_watermark() -> Answer:
    default, gate_off, watermark = (cost(record(THRASH[name])) for name in (_DEFAULT, _GATE_OFF, _WATERMARK))
    changes = {
        "gate off: recomputed": (default.recomputed, gate_off.recomputed),
        "watermark 0.2: recomputed": (default.recomputed, watermark.recomputed),
        "watermark 0.2: steps": (default.steps, watermark.steps),
    }
    return _changes(changes)


def _higher_cap() -> Answer:
    low, high = (cost(record(CAPS[f"max_num_seqs={cap}"])) for cap in (2, 8))
    return _changes({"scheduled tokens": (low.scheduled, high.scheduled), "steps": (low.steps, high.steps)})


def _changes(changes: Mapping[str, tuple[int, int]]) -> Answer:
    return Answer(
        actual={name: _compared(*pair) for name, pair in changes.items()},
        why={name: f"{before} before, {after} after" for name, (before, after) in changes.items()},
    )


_MORE_OR_FEWER = ("more", "fewer", "the same")
QUESTIONS: tuple[Question, ...] = (
    Question("victim", "Who is preempted in step 1?", ("victim",), _victim, choices=("A", "B", "C")),
    Question(
        "pool_after_preemption",
        "How many blocks does the pool hold after that step (block 0 included), and how many of them are free?",
        ("blocks in the pool", "free blocks"),
        _pool,
    ),
    Question(
        "kept_and_lost",
        "What are these three numbers right after B was preempted?",
        ("num_computed_tokens", "output tokens", "ref count of a shared block"),
        _kept_and_lost,
    ),
    Question(
        "own_prefix",
        "How many tokens does R compute in the step in which it comes back?",
        ("Q stops", "Q goes on"),
        _own_prefix,
    ),
    Question(
        "newcomer_after_preemption",
        "How many tokens does D get in these two steps?",
        ("step 1", "step 2"),
        _newcomer,
        ordered=True,
    ),
    Question(
        "urgent_newcomer",
        "How many tokens do batch and urgent get in step 1, and how many requests are preempted?",
        ("batch", "urgent", "preempted"),
        _urgent,
    ),
    Question(
        "victim_already_scheduled",
        "How many tokens do low and high get in step 2, and how many of the 16 are left?",
        ("low", "high", "budget left"),
        _rollback,
    ),
    Question("self_victim", "How many tokens do low and high get in step 2?", ("low", "high"), _self_victim),
    Question(
        "gate_and_watermark",
        "Beside the defaults (gate on, watermark 0), are there more, fewer or the same?",
        ("gate off: recomputed", "watermark 0.2: recomputed", "watermark 0.2: steps"),
        _gate_and_watermark,
        choices=_MORE_OR_FEWER,
    ),
    Question(
        "higher_cap",
        "With max_num_seqs 8 in place of 2, are there more, fewer or the same?",
        ("scheduled tokens", "steps"),
        _higher_cap,
        choices=_MORE_OR_FEWER,
    ),
)
