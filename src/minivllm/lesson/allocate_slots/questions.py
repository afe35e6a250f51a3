"""What the notebook 3-allocate-slots asks: each answer is a run of the engine."""

import threading
from dataclasses import replace
from typing import Any

from minivllm.core.kv_cache_manager import KVCacheManager
from minivllm.lesson.allocate_slots.gate_questions import GATES
from minivllm.lesson.allocate_slots.regions import PoolView
from minivllm.lesson.common.load import Arrival, Load
from minivllm.lesson.common.question import Answer, Question
from minivllm.lesson.common.run import Run
from minivllm.observe.recorder import around

FREE_ORDER = Load([Arrival("A", prompt=14, shared=8, max_tokens=1)], budget=32, blocks=9)
HIT = Load([*FREE_ORDER.arrivals, Arrival("B", prompt=13, shared=8, step=1)], budget=32, blocks=9)
SHARING = Load(
    [Arrival("A", prompt=14, shared=8, max_tokens=3), Arrival("B", prompt=13, shared=8, step=1)], budget=32, blocks=9
)
BLOCKS = Load([Arrival("R", prompt=12)], budget=32)
LOOKAHEAD = Load([Arrival("D", prompt=8)], budget=32)
REFUSED = Load(
    [*FREE_ORDER.arrivals, Arrival("C", prompt=16, step=1), Arrival("B", prompt=20, shared=8, step=2)],
    budget=32,
    blocks=9,
)


def _view(run: Run) -> PoolView:
    return PoolView.of(run.scheduler.kv_cache_manager.block_pool)


_PLACES = tuple(f"place {place}" for place in range(1, 9))


def _free_queue() -> Answer:
    run = Run.after(FREE_ORDER, 0)
    step = run.schedule()
    (table,) = run.tables_of("A")
    fresh = _view(run).free
    run.answer(step)
    view = _view(run)
    unhashed = [block for block in table if block not in view.cached]

    def why(block: int) -> str:
        if block in fresh:
            return "never used: they kept their order"
        if block in unhashed:
            return "of A, not full, so without a hash: to the front"
        return "of A, with its hash: to the end, the table's tail first"

    return Answer(
        dict(zip(_PLACES, view.free, strict=True)),
        {place: why(block) for place, block in zip(_PLACES, view.free, strict=True)},
    )


_TABLE = tuple(f"block {index} of B" for index in range(4))


def _hit_leaves_the_queue() -> Answer:
    run = Run.after(HIT, 1)
    before = _view(run)
    run.schedule()
    (table,) = run.tables_of("B")
    return Answer(
        dict(zip(_TABLE, table, strict=True)),
        {
            name: "from the front of the free queue"
            if before.free.index(block) < 2
            else f"a hit: touched, it left place {before.free.index(block) + 1} of the queue"
            for name, block in zip(_TABLE, table, strict=True)
        },
    )


_LOOKED_UP, _ALLOCATED, _FINISHED = "after get_computed_blocks", "after allocate_slots", "after A has finished"


def _ref_of_a_hit() -> Answer:
    run = Run.after(SHARING, 1)
    manager = run.scheduler.kv_cache_manager
    manager.get_computed_blocks(run.scheduler.requests["B"])
    refs = {_LOOKED_UP: _view(run).refs.get(1, 0)}
    run.answer(run.schedule())
    refs[_ALLOCATED] = _view(run).refs.get(1, 0)
    while "A" in run.scheduler.requests:
        run.step()
    refs[_FINISHED] = _view(run).refs.get(1, 0)
    return Answer(
        refs,
        {
            _LOOKED_UP: "a lookup changes no ref count; A alone holds the block",
            _ALLOCATED: "touched once the capacity check has passed: in A's table and in B's",
            _FINISHED: "free took A's reference; B still holds the block, so it is in no queue",
        },
    )


_PROMPT, _BEHIND_FULL, _IN_PARTIAL = "a prompt of 12", "its 1st decode", "its 2nd decode"


def _blocks_needed() -> Answer:
    run = Run(BLOCKS)
    steps = {name: run.step() for name in (_PROMPT, _BEHIND_FULL, _IN_PARTIAL)}
    return Answer(
        {name: step.free_blocks - step.free_blocks_after for name, step in steps.items()},
        {
            _PROMPT: "12 tokens fill 3 blocks of 4",
            _BEHIND_FULL: "token 13 finds every block of the table full",
            _IN_PARTIAL: "token 14 has a slot in the block that token 13 opened",
        },
    )


_A_RUNS, _A_IS_GONE = "while A runs", "after A has finished"


def _blocks_of_a_hit() -> Answer:
    taken = {}
    for name, load in {_A_RUNS: SHARING, _A_IS_GONE: HIT}.items():
        step = Run.after(load, 1).schedule()
        taken[name] = step.free_blocks - step.free_blocks_after
    return Answer(
        taken,
        {
            _A_RUNS: "2 new blocks; A owns the hit's 2 blocks, they are not in the queue",
            _A_IS_GONE: "2 new blocks, and the hit's 2 blocks, which stood in the queue",
        },
    )


_NGRAM, _DRAFT_MODEL, _CHARGED = "blocks, n-gram", "blocks, draft model", "budget, draft model"


def _lookahead() -> Answer:
    ngram = Run(replace(LOOKAHEAD, arrivals=[Arrival("D", prompt=8, drafts=4)]))
    model = Run(replace(LOOKAHEAD, lookahead=4))
    step, step_of_model = ngram.step(), model.step()
    return Answer(
        {
            _NGRAM: step.free_blocks - step.free_blocks_after,
            _DRAFT_MODEL: step_of_model.free_blocks - step_of_model.free_blocks_after,
            _CHARGED: step_of_model.budget - step_of_model.left,
        },
        {
            _NGRAM: "an n-gram drafter has no KV of its own: 0 lookahead slots",
            _DRAFT_MODEL: "8 tokens and 4 lookahead slots: 12 slots",
            _CHARGED: "lookahead takes slots, never token budget",
        },
    )


_COMPUTED, _REF, _FREE = "num_computed_tokens of B", "ref count of block 1", "free blocks"


def _refused() -> Answer:
    run = Run.after(REFUSED, 2)
    request = run.scheduler.requests["B"]
    blocks, hit = run.scheduler.kv_cache_manager.get_computed_blocks(request)
    step = run.schedule()
    assert hit and "B" not in step.scheduled and not request.num_computed_tokens
    needed = len(blocks.get_block_ids()[0]) + (request.num_tokens - hit) // REFUSED.block_size
    return Answer(
        {_COMPUTED: request.num_computed_tokens, _REF: _view(run).refs.get(1, 0), _FREE: step.free_blocks_after},
        {
            _COMPUTED: f"the hit was {hit}, but the counter is written after a successful allocation",
            _REF: "the touch comes behind the check, which failed",
            _FREE: f"{needed} blocks would leave the queue, {step.free_blocks_after} are there: None, nothing changed",
        },
    )


def _threads() -> Answer:
    seen = set()

    def listen(call: Any, *args: Any) -> Any:
        seen.add(threading.get_ident())
        return call(*args)

    run = Run(SHARING)
    manager: KVCacheManager = run.scheduler.kv_cache_manager
    for method in ("touch", "get_new_blocks", "free_blocks"):
        around(manager.block_pool, method, listen)
    while not run.finished:
        run.step()
    return Answer({"threads": len(seen)}, {"threads": "the scheduler's own: nobody else touches a ref count"})


QUESTIONS: tuple[Question, ...] = (
    Question(
        "free_queue", "In which order does the free queue stand after A has finished?", _PLACES, _free_queue, True
    ),
    Question("hit_leaves_the_queue", "Which blocks are in B's table?", _TABLE, _hit_leaves_the_queue, ordered=True),
    Question(
        "ref_of_a_hit",
        "What is the ref count of block 1 at these three moments?",
        (_LOOKED_UP, _ALLOCATED, _FINISHED),
        _ref_of_a_hit,
    ),
    Question("one_thread", "How many threads change ref counts during a run?", ("threads",), _threads),
    Question(
        "blocks_needed",
        "How many blocks leave the free queue in each of these steps?",
        (_PROMPT, _BEHIND_FULL, _IN_PARTIAL),
        _blocks_needed,
    ),
    Question(
        "blocks_of_a_hit",
        "How many blocks leave the free queue when B is admitted?",
        (_A_RUNS, _A_IS_GONE),
        _blocks_of_a_hit,
    ),
    Question(
        "lookahead",
        "How many blocks does a prompt of 8 tokens take with 4 drafts a step, and how many tokens of budget?",
        (_NGRAM, _DRAFT_MODEL, _CHARGED),
        _lookahead,
    ),
    Question("refused", "What do these three say after B was refused?", (_COMPUTED, _REF, _FREE), _refused),
    *GATES,
)
