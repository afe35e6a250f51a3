"""What the notebook 0-start-here asks: each answer is a run of the engine, or the bill of a published config."""

from itertools import count

from minivllm.kv_bill import GIB, MODELS
from minivllm.lesson.common.load import Arrival, Load
from minivllm.lesson.common.question import Answer, Question, yes_or_no
from minivllm.lesson.common.run import Run, record
from minivllm.lesson.common.why import explain
from minivllm.lesson.start_here.first_run import tiny_engine
from minivllm.observe.frame import Frame
from minivllm.request import SamplingParams

FIRST_SERVED = Load([Arrival("A", prompt=20), Arrival("B", prompt=1, step=1)])
REFUSED_ADMISSION = Load([Arrival("A", prompt=12), Arrival("B", prompt=12, step=1)], budget=32, blocks=7)
REFUSED_GROWTH = Load(
    [Arrival("A", prompt=12), Arrival("B", prompt=12), Arrival("C", prompt=3, step=1)], budget=32, blocks=7
)
CONTEXT, REQUESTS = 64, 2
POOL, PROMPT, OUTPUTS = 12, 16, 16
"""Of the question about a full pool: usable blocks of 4 tokens, and the tokens of each of its three requests."""


def _first_served() -> Answer:
    frame = record(FIRST_SERVED).frames[1]
    asked = [event[1] for event in frame.events if event[0] == "alloc"]
    why = f"allocate_slots was asked for {asked[0]} first; {frame.left} tokens of budget were left after it"
    return Answer({"first": asked[0]}, {"first": why})


def _fates(name: str, asks: str, load: Load) -> Question:
    """What becomes of each request in step 1 of `load`."""
    objects = tuple(arrival.request_id for arrival in load.arrivals)

    def answer() -> Answer:
        run = Run(load)
        run.step()
        step = run.step()
        frame = record(load).frames[1]
        return Answer(
            actual={request_id: _fate(frame, request_id) for request_id in objects},
            why={request_id: explain(step, request_id) for request_id in objects},
            steps=(step,),
        )

    return Question(name, asks, objects, answer, choices=("runs", "waits", "is preempted"))


def _fate(frame: Frame, request_id: str) -> str:
    if request_id in frame.preempted:
        return "is preempted"
    return "runs" if request_id in frame.running else "waits"


def _blocks_held(context: int, requests: int) -> int:
    """Blocks that unshared prompts of `context` tokens hold once they are computed."""
    load = Load(
        [Arrival(f"r{index}", prompt=context, max_tokens=1) for index in range(requests)],
        budget=1024,
        blocks=257,
        block_size=16,
    )
    return record(load).frames[-1].num_used_blocks


_GROWTH = {
    "context x 2": (2 * CONTEXT, REQUESTS),
    "requests x 2": (CONTEXT, 2 * REQUESTS),
    "both x 2": (2 * CONTEXT, 2 * REQUESTS),
}


def _growth() -> Answer:
    before = _blocks_held(CONTEXT, REQUESTS)
    after = {name: _blocks_held(*size) for name, size in _GROWTH.items()}
    return Answer(
        actual={name: blocks // before for name, blocks in after.items()},
        why={
            name: f"{before} blocks became {blocks}: blocks follow the total of tokens"
            for name, blocks in after.items()
        },
    )


def _more_than_weights() -> Answer:
    actual, why = {}, {}
    for name, shape in ((name, MODELS[name]) for name in ("Llama-3-8B", "SmolLM2-135M")):
        one = shape.max_position_embeddings * shape.kv_bytes_per_token()
        requests = next(n for n in count(1) if n * one > shape.weight_bytes)
        actual[name] = requests
        why[name] = f"{requests} x {one / GIB:.4g} GiB is the first multiple above {shape.weight_bytes / GIB:.2f} GiB"
    return Answer(actual, why)


def _full_pool() -> Answer:
    engine = tiny_engine(POOL)
    before, whole = sum(cache.nbytes for cache in engine.runner.kv_caches), 0
    for index in range(3):
        prompt = [1 + (7 * index + position) % 100 for position in range(PROMPT)]
        engine.add_request(f"r{index}", prompt, SamplingParams(max_tokens=OUTPUTS, ignore_eos=True, temperature=0.0))
    requests = list(engine.scheduler.requests.values())
    while engine.has_unfinished_requests():
        finished = [output for output in engine.step() if output.finished]
        whole += sum(len(output.outputs[0].token_ids) == OUTPUTS for output in finished)
    preempted = sum(request.num_preemptions for request in requests)
    after = sum(cache.nbytes for cache in engine.runner.kv_caches)
    return Answer(
        actual={
            "a request is preempted": yes_or_no(preempted > 0),
            "the KV tensors grow": yes_or_no(after > before),
            "a request is lost": yes_or_no(whole < len(requests)),
        },
        why={
            "a request is preempted": f"{preempted} preemptions: blocks ran out, and a victim gave its own back",
            "the KV tensors grow": f"{before:,} bytes before the first step, {after:,} after the last",
            "a request is lost": f"{whole} of {len(requests)} finished with all {OUTPUTS} outputs",
        },
    )


QUESTIONS = (
    Question("first_served", "Which request does step 1 serve first?", ("first",), _first_served, choices=("A", "B")),
    _fates("refused_admission", "B does not fit. What becomes of A and B in step 1?", REFUSED_ADMISSION),
    _fates("refused_growth", "A needs a block and none is free. What becomes of A, B and C in step 1?", REFUSED_GROWTH),
    Question("kv_growth", "By which factor do the blocks in use grow?", tuple(_GROWTH), _growth),
    Question(
        "more_than_weights",
        "How many requests of 8K tokens take more memory than the weights?",
        ("Llama-3-8B", "SmolLM2-135M"),
        _more_than_weights,
    ),
    Question(
        "full_pool",
        "Three requests need more blocks than there are. Which of these happens?",
        ("a request is preempted", "the KV tensors grow", "a request is lost"),
        _full_pool,
        choices=("yes", "no"),
    ),
)
