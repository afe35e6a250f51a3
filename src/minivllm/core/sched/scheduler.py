"""Who runs in the next step, and with how many tokens.

Mirrors vllm/v1/core/sched/scheduler.py (Scheduler). There is no prefill phase and no decode phase: a request has
``num_computed_tokens`` and ``num_tokens_with_spec``, and every step tries to close the gap between the two.
"""

from collections.abc import Iterable, Mapping, Sequence

from minivllm.config import EngineConfig
from minivllm.core.kv_cache_manager import KVCacheManager
from minivllm.core.kv_cache_utils import RequestBlockHasher
from minivllm.core.sched.diagnosis import diagnose_running, diagnose_waiting
from minivllm.core.sched.output import CachedRequestData, EngineCoreOutput, NewRequestData, SchedulerOutput
from minivllm.core.sched.request_queue import create_request_queue
from minivllm.core.sched.step import Step
from minivllm.core.sched.utils import check_draft_token_ids, check_sampled_token_ids, check_stop
from minivllm.request import Request, RequestStatus


class Scheduler:
    """Owns the queues and the budget of a step.

    A step is ``schedule()``, then the model, then ``update_from_output()``; with drafts also
    ``update_draft_token_ids()``.

    Attributes:
        requests: every unfinished request by id.
        running: RUNNING requests in the order of admission.
        waiting: WAITING and PREEMPTED requests, head first.
    """

    def __init__(self, config: EngineConfig) -> None:
        self.config = config
        self.scheduler_config = config.scheduler
        self.max_model_len = config.scheduler.max_model_len
        speculative = config.speculative
        self.num_spec_tokens = speculative.num_speculative_tokens if speculative else 0
        self.num_lookahead_tokens = speculative.num_lookahead_tokens if speculative else 0
        self.draft_slots = speculative.max_num_new_slots_for_drafting if speculative else 0
        self.kv_cache_manager = KVCacheManager(config)
        self.block_hasher = RequestBlockHasher(config.cache.block_size) if config.cache.enable_prefix_caching else None
        self.requests: dict[str, Request] = {}
        self.waiting = create_request_queue(config.scheduler.policy)
        self.running: list[Request] = []
        self.finished_req_ids: set[str] = set()

    # ---- requests in and out

    def add_request(self, request: Request) -> None:
        """Puts a new request into ``waiting``.

        Raises:
            ValueError: the id is taken, the prompt leaves no room for an output token, or the request was used before.
        """
        if request.request_id in self.requests:
            raise ValueError(
                f"Request {request.request_id!r} is in the scheduler already ({request!r}): give each unfinished "
                "request an id of its own."
            )
        if request.num_prompt_tokens >= self.max_model_len:
            raise ValueError(
                f"Request {request.request_id!r}: prompt_token_ids holds {request.num_prompt_tokens} tokens, but at "
                f"most max_model_len - 1 = {self.max_model_len - 1} leave room for an output token: shorten the "
                "prompt or raise SchedulerConfig.max_model_len."
            )
        if request.status is not RequestStatus.WAITING or request.num_computed_tokens or request.block_hashes:
            raise ValueError(
                f"Request {request.request_id!r} was scheduled before ({request!r}): make a new Request for each run."
            )
        if self.block_hasher is not None:
            request.set_block_hasher(self.block_hasher)
        self.requests[request.request_id] = request
        self.waiting.add_request(request)

    def finish_requests(self, request_ids: str | Iterable[str], finished_status: RequestStatus) -> list[Request]:
        """Ends requests from outside, wherever they are, and frees their blocks at once.

        Raises:
            ValueError: an id is not in the scheduler, or the status is none that ends a request; nobody is finished.
        """
        if not finished_status.is_finished:
            raise ValueError(f"finished_status is {finished_status.name}, but must be one of the FINISHED_ statuses.")
        ids = [request_ids] if isinstance(request_ids, str) else list(dict.fromkeys(request_ids))
        unknown = [request_id for request_id in ids if request_id not in self.requests]
        if unknown:
            raise ValueError(
                f"Request {unknown[0]!r} is not in the scheduler, so it can't be finished: it was never added, or it "
                "has finished."
            )
        requests = {self.requests[request_id]: None for request_id in ids}
        self.running = [request for request in self.running if request not in requests]
        self.waiting.remove_requests(requests)
        for request in requests:
            request.status = finished_status
            self._free_request(request)
        return list(requests)

    def has_unfinished_requests(self) -> bool:
        return bool(self.requests)

    def diagnose(self) -> str | None:
        """What stands still for ever, and why; None if everything moves on.

        vLLM says nothing in these cases, and neither does ``schedule``: a request just gets no token any more.
        """
        for request in self.running:
            diagnosis = diagnose_running(request, self.max_model_len)
            if diagnosis is not None:
                return diagnosis
        if not self.waiting:
            return None
        return diagnose_waiting(self.waiting.peek_request(), len(self.waiting) - 1, self.config, self.kv_cache_manager)

    # ---- a step

    def schedule(self) -> SchedulerOutput:
        """Decides the next step: first those who run, then, if nobody was preempted, those who wait.

        ``num_computed_tokens`` moves forward here, before the model has run; ``update_from_output`` takes back what
        the model rejects.
        """
        step = Step(
            token_budget=self.config.max_num_scheduled_tokens,
            input_budget=self.scheduler_config.max_num_batched_tokens - self.draft_slots,
            draft_slots=self.draft_slots,
        )
        self._schedule_running(step)
        if not step.preempted_req_ids:
            self._schedule_waiting(step)
        return self._make_output(step)

    def _schedule_running(self, step: Step) -> None:
        threshold = self.scheduler_config.long_prefill_token_threshold
        index = 0
        while index < len(self.running) and (budget := step.max_num_new_tokens) > 0:
            request = self.running[index]
            num_new_tokens = request.num_tokens_with_spec - request.num_computed_tokens
            if 0 < threshold < num_new_tokens:
                num_new_tokens = threshold
            # The sampled token has to fit behind the drafts, hence the - 1.
            num_new_tokens = min(num_new_tokens, budget, self.max_model_len - request.num_computed_tokens - 1)
            if num_new_tokens <= 0:
                index += 1
                continue

            while True:
                new_blocks = self.kv_cache_manager.allocate_slots(
                    request, num_new_tokens, num_lookahead_tokens=self.num_lookahead_tokens
                )
                if new_blocks is not None:
                    break
                victim_index = self._select_victim()
                victim = self.running.pop(victim_index)
                if victim_index < index:
                    index -= 1
                if victim.request_id in step.num_scheduled_tokens:
                    step.refund(victim)
                    first = victim.num_computed_tokens // self.config.cache.block_size
                    for block_ids in self.kv_cache_manager.get_blocks(victim.request_id).get_block_ids():
                        step.uncomputed_block_ids += block_ids[first:]
                self._preempt_request(victim)
                step.preempted_req_ids.append(victim.request_id)
                if victim is request:
                    return

            step.running_reqs.append(request)
            step.charge(request.request_id, num_new_tokens)
            if new_blocks is not self.kv_cache_manager.empty_kv_cache_blocks:
                step.new_blocks[request.request_id] = new_blocks
            if request.spec_token_ids:
                num_drafts = request.num_computed_tokens + num_new_tokens - request.num_tokens
                if num_drafts > 0:
                    step.spec_decode_tokens[request.request_id] = request.spec_token_ids[:num_drafts]
                request.spec_token_ids = []
            index += 1

    def _select_victim(self) -> int:
        """The index in ``running`` of the request to preempt; it can be the one that asks for blocks."""
        if self.scheduler_config.policy == "fcfs":
            return len(self.running) - 1
        return max(range(len(self.running)), key=lambda i: (self.running[i].priority, self.running[i].arrival_time))

    def _preempt_request(self, request: Request) -> None:
        """Sends a request, already out of ``running``, back to ``waiting``; its output tokens and hashes stay."""
        self.kv_cache_manager.free(request)
        request.status = RequestStatus.PREEMPTED
        request.num_computed_tokens = 0
        request.spec_token_ids = []
        request.num_preemptions += 1
        self.waiting.prepend_request(request)

    def _schedule_waiting(self, step: Step) -> None:
        config = self.scheduler_config
        threshold = config.long_prefill_token_threshold
        # Newcomers are padded only if every request so far is a decode with drafts.
        pad = bool(self.num_spec_tokens and step.running_reqs) and not any(
            request.is_prefill_chunk for request in step.running_reqs
        )
        while self.waiting and len(self.running) < config.max_num_seqs and (budget := step.max_num_new_tokens) > 0:
            request = self.waiting.peek_request()
            new_computed_blocks, num_computed_tokens = self.kv_cache_manager.get_computed_blocks(request)
            num_new_tokens = request.num_tokens - num_computed_tokens
            drafts: list[int] = []
            if pad and num_new_tokens == 1:
                drafts = [-1] * self.num_spec_tokens
                num_new_tokens += len(drafts)
                if num_new_tokens > budget or num_computed_tokens + num_new_tokens > self.max_model_len:
                    break
            if 0 < threshold < num_new_tokens:
                num_new_tokens = threshold
            if not config.enable_chunked_prefill and num_new_tokens > budget:
                break
            num_new_tokens = min(num_new_tokens, budget)

            new_blocks = self.kv_cache_manager.allocate_slots(
                request,
                num_new_tokens,
                num_computed_tokens,
                new_computed_blocks,
                self.num_lookahead_tokens,
                full_sequence_must_fit=config.scheduler_reserve_full_isl,
                has_scheduled_reqs=bool(self.running),
            )
            if new_blocks is None:
                break

            self.waiting.pop_request()
            self.running.append(request)
            (step.new_reqs if request.status is RequestStatus.WAITING else step.resumed_reqs).append(request)
            step.charge(request.request_id, num_new_tokens)
            if drafts:
                step.spec_decode_tokens[request.request_id] = drafts
            request.status = RequestStatus.RUNNING
            request.num_computed_tokens = num_computed_tokens

    def _make_output(self, step: Step) -> SchedulerOutput:
        new_blocks = step.new_blocks
        output = SchedulerOutput(
            scheduled_new_reqs=[self._make_new_request_data(request) for request in step.new_reqs],
            scheduled_resumed_reqs=[self._make_new_request_data(request) for request in step.resumed_reqs],
            scheduled_cached_reqs=CachedRequestData(
                req_ids=[request.request_id for request in step.running_reqs],
                new_block_ids=[
                    new_blocks[request.request_id].get_block_ids() if request.request_id in new_blocks else None
                    for request in step.running_reqs
                ],
                num_computed_tokens=[request.num_computed_tokens for request in step.running_reqs],
            ),
            num_scheduled_tokens=step.num_scheduled_tokens,
            total_num_scheduled_tokens=sum(step.num_scheduled_tokens.values()),
            scheduled_spec_decode_tokens=step.spec_decode_tokens,
            preempted_req_ids=step.preempted_req_ids,
            finished_req_ids=self.finished_req_ids,
            uncomputed_block_ids=step.uncomputed_block_ids,
        )
        self.finished_req_ids = set()
        for request_id, num_tokens in step.num_scheduled_tokens.items():
            request = self.requests[request_id]
            request.num_computed_tokens += num_tokens
            request.is_prefill_chunk = request.num_computed_tokens < request.num_tokens
        return output

    def _make_new_request_data(self, request: Request) -> NewRequestData:
        return NewRequestData(
            request.request_id,
            request.all_token_ids,
            request.num_prompt_tokens,
            request.sampling_params,
            self.kv_cache_manager.get_blocks(request.request_id).get_block_ids(),
            request.num_computed_tokens,
        )

    # ---- what the model said

    def update_from_output(
        self, scheduler_output: SchedulerOutput, sampled_token_ids: Mapping[str, Sequence[int]]
    ) -> list[EngineCoreOutput]:
        """Takes the sampled tokens in, rolls rejected drafts back and ends requests.

        Args:
            scheduler_output: what ``schedule`` returned.
            sampled_token_ids: for every scheduled request the tokens that the model accepted and the one that it
                sampled; none for a chunk that does not reach the last known token.

        Returns:
            One output for each request that got a token, in schedule order. Requests finished meanwhile are left out.

        Raises:
            ValueError: an id is missing or was not scheduled, a token is no int, or there are more or fewer tokens than
                the step can give; nothing is taken in.
        """
        check_sampled_token_ids(scheduler_output, sampled_token_ids, self.requests)
        scheduled_drafts = scheduler_output.scheduled_spec_decode_tokens
        outputs = []
        any_stopped = False
        for request_id in scheduler_output.num_scheduled_tokens:
            request = self.requests.get(request_id)
            token_ids = sampled_token_ids[request_id]
            if request is None or request.status is not RequestStatus.RUNNING or not token_ids:
                continue
            if request_id in scheduled_drafts:
                num_rejected = len(scheduled_drafts[request_id]) - (len(token_ids) - 1)
                request.num_computed_tokens -= num_rejected
            output = EngineCoreOutput(request_id, list(token_ids))
            outputs.append(output)
            for num_new, token_id in enumerate(token_ids, 1):
                request.append_output_token_ids(token_id)
                if check_stop(request, self.max_model_len):
                    del output.new_token_ids[num_new:]
                    output.finish_reason = request.status.finish_reason
                    self._free_request(request)
                    any_stopped = True
                    break
        if any_stopped:
            self.running = [request for request in self.running if not request.is_finished]
        return outputs

    def update_draft_token_ids(self, draft_token_ids: Mapping[str, Sequence[int]]) -> None:
        """Sets the draft tokens of the next step. Finished requests and those amid their prompt take none.

        Raises:
            ValueError: drafts without a SpeculativeConfig, too many of them, or one that is no int; none is set.
        """
        check_draft_token_ids(draft_token_ids, self.num_spec_tokens)
        for request_id, drafts in draft_token_ids.items():
            request = self.requests.get(request_id)
            if request is not None:
                request.spec_token_ids = [] if request.is_prefill_chunk else list(drafts)

    def _free_request(self, request: Request) -> None:
        self.finished_req_ids.add(request.request_id)
        self.kv_cache_manager.free(request)
        del self.requests[request.request_id]

    def reset_prefix_cache(self, reset_running_requests: bool = False) -> bool:
        """Forgets every cached block, for example after new weights.

        Args:
            reset_running_requests: preempt everybody first, so that no table holds a block.

        Returns:
            Whether it happened: False, and the cache is as before, while a request holds blocks.
        """
        if reset_running_requests:
            while self.running:
                self._preempt_request(self.running.pop())
        return self.kv_cache_manager.reset_prefix_cache()
