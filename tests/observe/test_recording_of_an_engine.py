"""A real model's run is recorded through its engine's scheduler."""

from minivllm.observe.recording import Recording
from tests.engine.tiny_engine import finish, greedy, make_engine


def test_an_engine_is_recorded_through_its_scheduler() -> None:
    plain, watched = make_engine(budget=16, blocks=6), make_engine(budget=16, blocks=6)
    prompts = {"A": [*range(1, 21)], "B": [*range(1, 18), 40, 41]}
    answers = []
    recording = Recording(watched.scheduler)
    for engine in (plain, watched):
        for request_id, prompt in prompts.items():
            engine.add_request(request_id, prompt, greedy(24))
        answers.append({request_id: output.outputs[0].token_ids for request_id, output in finish(engine).items()})
    assert answers[0] == answers[1]
    for request_id in prompts:
        assert sum(frame.sampled.get(request_id, 0) for frame in recording.frames) == 24
    assert any(frame.hits for frame in recording.frames) and any(frame.preempted for frame in recording.frames)
