"""Why a request got what it got in one step of the scheduler, in one sentence."""

from minivllm.lesson.common.watch import RequestView, Step


def explain(step: Step, request_id: str) -> str:
    """The rule that decided `request_id`'s tokens in `step`.

    Raises:
        KeyError: the step knew no such request.
    """
    view = next((view for view in step.before if view.request_id == request_id), None)
    if view is None:
        raise KeyError(
            f"{request_id!r} was neither running nor waiting in this step; it had {[v.request_id for v in step.before]}"
        )
    return _running(step, view) if view.status == "running" else _waiting(step, view)


def _running(step: Step, view: RequestView) -> str:
    config = step.config.scheduler
    if view.request_id in step.output.preempted_req_ids:
        return (
            f"preempted: {step.free_blocks} free blocks were too few, so its own went back and its computed is 0 again"
        )
    left = _left_before(step, view)
    if left == 0:
        return "the budget was used up before its turn"
    got = step.scheduled.get(view.request_id, 0)
    if got == 0:
        return "a running request before it preempted itself, which ends the running pass"
    want, taken = view.gap, f"gap {view.target} - {view.computed} = {view.gap}"
    threshold = config.long_prefill_token_threshold
    if 0 < threshold < want:
        want, taken = threshold, f"{taken}, cut to long_prefill_token_threshold {threshold}"
    if got < min(want, left):
        return f"{taken}, cut to {got}: max_model_len {config.max_model_len} - computed {view.computed} - 1"
    return f"{taken}; min({want}, budget left {left}) = {got}"


def _waiting(step: Step, view: RequestView) -> str:
    config = step.config.scheduler
    got = step.scheduled.get(view.request_id, 0)
    left = _left_before(step, view)
    if got == 0:
        return _refused(step, view, left)
    hit = step.hit_of(view.request_id)
    need = view.known - hit
    source = f"gap {view.known} - {hit}" + (f" ({hit} tokens from the prefix cache)" if hit else "") + f" = {need}"
    if got > need:
        return f"{source}, padded to 1 + {got - need} tokens so that every decode of the step has the same size"
    threshold = config.long_prefill_token_threshold
    if 0 < threshold < need:
        need, source = threshold, f"{source}, cut to long_prefill_token_threshold {threshold}"
    return f"{source}; min({need}, budget left {left}) = {got}"


def _refused(step: Step, view: RequestView, left: int) -> str:
    config = step.config
    if step.output.preempted_req_ids:
        return "a step that preempts admits nobody from the waiting queue"
    if left == 0:
        return "the budget was used up before its turn"
    admitted = [v.request_id for v in step.before if v.status != "running" and v.request_id in step.scheduled]
    num_running = len([v for v in step.before if v.status == "running"]) + len(admitted)
    if num_running == config.scheduler.max_num_seqs:
        return (
            f"{left} tokens of budget are left, but max_num_seqs = {num_running} requests are running: no sequence slot"
        )
    ahead = [v.request_id for v in _queue_before(step, view) if v.request_id not in step.scheduled]
    if ahead:
        return f"{ahead[0]} is ahead of it in the queue and was not admitted; nobody overtakes"
    if not config.scheduler.enable_chunked_prefill and view.known > left:
        return f"chunked prefill is off and its {view.known} tokens exceed the {left} tokens of budget left"
    size = config.cache.block_size
    blocks = -(-view.known // size)
    if config.speculative is not None and blocks <= step.free_blocks_after:
        padded = 1 + config.speculative.num_speculative_tokens
        return (
            f"padded to {padded} tokens, the size of this step's decodes, it exceeds the {left} tokens of budget left"
        )
    kept_free = int(config.scheduler.watermark * config.cache.num_gpu_blocks) if num_running else 0
    watermark = f" and the watermark {kept_free}" if kept_free else ""
    return (
        f"{left} tokens of budget are left, but allocate_slots failed: "
        f"{view.known} tokens need {blocks} blocks of {size}{watermark}, free: {step.free_blocks_after}"
    )


def _queue_before(step: Step, view: RequestView) -> list[RequestView]:
    queue = [v for v in step.before if v.status != "running"]
    return queue[: queue.index(view)]


def _left_before(step: Step, view: RequestView) -> int:
    """The budget when it was `view`'s turn: the engine serves running requests in list order, then the queue."""
    ahead = step.before[: step.before.index(view)]
    return step.budget - sum(step.scheduled.get(v.request_id, 0) for v in ahead)
