"""What the notebook 1-budget-planner asks: each answer is a run of the engine."""

from minivllm.lesson.common.load import Arrival, Load
from minivllm.lesson.common.question import Answer, Question
from minivllm.lesson.common.run import Run
from minivllm.lesson.common.why import explain

WORKED = Load([Arrival("A", prompt=6, drafts=3, accepted=1), Arrival("B", prompt=7, step=1)])
LONG_PROMPT = Load([Arrival("L", prompt=20, max_tokens=3)])
RUNNING_FIRST = Load([Arrival("long", prompt=20), Arrival("short", prompt=1, step=1)])
CARRY_OVER = Load([Arrival("A", prompt=4), Arrival("B", prompt=30, step=2)])
CHUNK_SIZE = Load([Arrival(name, prompt=12) for name in "PQRS"], budget=30)
SEQUENCE_SLOT = Load([Arrival("A", prompt=6), Arrival("B", prompt=7, step=1)], max_num_seqs=1)
HEAD_OF_LINE = Load(
    [Arrival("A", prompt=12), Arrival("big", prompt=12, step=1), Arrival("tiny", prompt=3, step=1)], budget=32, blocks=7
)
PADDING = Load(
    [Arrival("A", prompt=6, drafts=3, shared=4), Arrival("B", prompt=5, drafts=3, shared=4, step=1)], budget=16
)


def _shares(name: str, asks: str, load: Load, index: int, *, picture: bool = True) -> Question:
    """How many tokens each request of `load` gets in step `index`, with a picture of that step."""
    objects = tuple(arrival.request_id for arrival in load.arrivals)

    def answer() -> Answer:
        step = Run.after(load, index).schedule()
        return Answer(
            actual={request_id: step.scheduled.get(request_id, 0) for request_id in objects},
            why={request_id: explain(step, request_id) for request_id in objects},
            steps=(step,) if picture else (),
        )

    return Question(name, asks, objects, answer)


_LONG_PROMPT_STEPS = tuple(f"step {index}" for index in range(5))


def _long_prompt() -> Answer:
    run = Run(LONG_PROMPT)
    steps = {name: run.step() for name in _LONG_PROMPT_STEPS}
    return Answer(
        actual={name: step.scheduled["L"] for name, step in steps.items()},
        why={name: explain(step, "L") for name, step in steps.items()},
    )


_AFTER_SCHEDULE, _AFTER_UPDATE = "after schedule()", "after update_from_output()"


def _rollback() -> Answer:
    run = Run(WORKED)
    run.step()
    run.arrive()
    step = run.schedule()
    before, advanced = step.before[0].computed, step.after["A"].computed
    run.answer(step)
    rolled_back = run.scheduler.requests["A"].num_computed_tokens
    return Answer(
        actual={_AFTER_SCHEDULE: advanced, _AFTER_UPDATE: rolled_back},
        why={
            _AFTER_SCHEDULE: f"{before} + {step.scheduled['A']} scheduled: it advances before the model runs",
            _AFTER_UPDATE: f"{advanced} - {advanced - rolled_back} rejected of {step.drafts_of('A')} drafts",
        },
    )


QUESTIONS = (
    _shares("worked_example", "How many of the 8 tokens do A and B get?", WORKED, 1, picture=False),
    Question(
        "long_prompt",
        "How many tokens does L get in each of its first five steps?",
        _LONG_PROMPT_STEPS,
        _long_prompt,
        ordered=True,
    ),
    Question(
        "rollback", "What is A's num_computed_tokens at these two moments?", (_AFTER_SCHEDULE, _AFTER_UPDATE), _rollback
    ),
    _shares("running_first", "How many of the 8 tokens do long and short get in step 1?", RUNNING_FIRST, 1),
    _shares("carry_over", "How many tokens do A and B get in step 2?", CARRY_OVER, 2),
    _shares("chunk_size", "How many of the 30 tokens does each of the four prompts get?", CHUNK_SIZE, 0),
    _shares("sequence_slot", "How many of the 8 tokens do A and B get in step 1?", SEQUENCE_SLOT, 1),
    _shares("head_of_line", "How many of the 32 tokens does each request get in step 1?", HEAD_OF_LINE, 1),
    _shares("padding", "How many of the 16 tokens do A and B get in step 1?", PADDING, 1),
)
