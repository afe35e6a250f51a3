"""The engine: requests go in, steps are taken, text comes out.

Mirrors vllm/v1/engine/llm_engine.py (LLMEngine), vllm/v1/engine/core.py (EngineCore.step) and vllm/outputs.py
(RequestOutput, CompletionOutput).
"""

import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from minivllm.config import EngineConfig
from minivllm.core.sched.output import EngineCoreOutput, SchedulerOutput
from minivllm.core.sched.scheduler import Scheduler
from minivllm.engine.drafter import NgramProposer
from minivllm.engine.interrupts import hold_interrupts
from minivllm.engine.runner import ModelRunner
from minivllm.engine.sampler import SampledTokens, TokenLogprobs
from minivllm.model.llama import LlamaForCausalLM
from minivllm.request import Request, RequestStatus, SamplingParams

if TYPE_CHECKING:  # an engine that is given token ids needs no tokenizer library
    from minivllm.model.tokenizer import IncrementalDetokenizer, Tokenizer


@dataclass
class CompletionOutput:
    """What a request has written so far.

    Attributes:
        text: without special tokens; a character whose bytes are not all there yet is held back.
        finish_reason: "stop", "length" or "abort"; None while it is going on.
        logprobs: one entry a token, if SamplingParams.logprobs asked for them.
    """

    text: str = ""
    token_ids: list[int] = field(default_factory=list)
    finish_reason: str | None = None
    logprobs: list[TokenLogprobs] | None = None


@dataclass
class RequestOutput:
    """A request and its answer; the engine gives the same object at every step, and it grows.

    Attributes:
        prompt: None if the prompt was given as token ids.
        num_cached_tokens: prompt tokens that were found in the prefix cache at the first admission.
    """

    request_id: str
    prompt: str | None
    prompt_token_ids: list[int]
    outputs: list[CompletionOutput]
    num_cached_tokens: int = 0

    @property
    def finished(self) -> bool:
        return self.outputs[0].finish_reason is not None


@dataclass
class _Stream:
    """A request on its way: what the user sees of it."""

    output: RequestOutput
    detokenizer: "IncrementalDetokenizer | None"

    def append(self, token_ids: Sequence[int], sampled: SampledTokens) -> None:
        completion = self.output.outputs[0]
        completion.token_ids += token_ids
        if sampled.logprobs is not None:
            completion.logprobs = (completion.logprobs or []) + sampled.logprobs[: len(token_ids)]
        if self.detokenizer is not None:
            completion.text += "".join(map(self.detokenizer.add, token_ids))

    def finish(self, reason: str) -> None:
        completion = self.output.outputs[0]
        completion.finish_reason = reason
        if self.detokenizer is not None:
            completion.text += self.detokenizer.finish()


class EngineStuckError(RuntimeError):
    """No request can get a token any more; the message is the scheduler's diagnosis."""


class LLMEngine:
    """One model, one scheduler, one KV cache.

    Args:
        model: with its weights.
        tokenizer: None if prompts and answers are token ids.
        config: ``config.speculative`` must be None or of the method "ngram", the one that needs no second model.

    Raises:
        ValueError: drafts of another method are asked for, or steps too short for their number.
    """

    def __init__(self, model: LlamaForCausalLM, tokenizer: "Tokenizer | None", config: EngineConfig) -> None:
        if config.speculative is not None and config.speculative.method != "ngram":
            raise ValueError(
                f"SpeculativeConfig.method is {config.speculative.method!r}, but this engine drafts with 'ngram' "
                "alone: the others are there for the scheduler, and need a second model."
            )
        threshold = config.scheduler.long_prefill_token_threshold
        if config.speculative is not None and 0 < threshold <= config.speculative.num_speculative_tokens:
            raise ValueError(
                f"SchedulerConfig.long_prefill_token_threshold is {threshold}, but with "
                f"{config.speculative.num_speculative_tokens} drafts a decode may take one token more than that: raise "
                "it, turn it off with 0, or draft less."
            )
        self.config = config
        self.tokenizer = tokenizer
        self.scheduler = Scheduler(config)
        self.runner = ModelRunner(model, config)
        self.drafter = NgramProposer(config.speculative.num_speculative_tokens) if config.speculative else None
        self._streams: dict[str, _Stream] = {}
        self._arrivals = itertools.count()

    def add_request(
        self, request_id: str, prompt: str | Sequence[int], sampling_params: SamplingParams, priority: int = 0
    ) -> RequestOutput:
        """Puts a prompt into the waiting queue.

        Returns:
            The answer, empty as yet; it grows with every step.

        Raises:
            ValueError: text without a tokenizer, what the model or its longest sequence can't give, or what Request and
                Scheduler.add_request refuse; nothing is added.
        """
        if isinstance(prompt, str):
            if self.tokenizer is None:
                raise ValueError(
                    f"Request {request_id!r}: the prompt is text, but the engine has no tokenizer: give token ids."
                )
            token_ids: Sequence[int] = self.tokenizer.encode(prompt)
        else:
            token_ids = prompt
        request = Request(
            request_id,
            token_ids,
            self._complete(sampling_params),
            arrival_time=float(next(self._arrivals)),
            priority=priority,
        )
        self._check(request)
        text = prompt if isinstance(prompt, str) else None
        output = RequestOutput(request_id, text, request.prompt_token_ids, [CompletionOutput()])
        detokenizer = self.tokenizer.detokenizer() if self.tokenizer is not None else None
        with hold_interrupts():
            self.scheduler.add_request(request)
            self._streams[request_id] = _Stream(output, detokenizer)
        return output

    def _check(self, request: Request) -> None:
        """What can't be given would fail amid a step, and take the step's other requests along."""
        max_model_len, min_tokens = self.config.scheduler.max_model_len, request.sampling_params.min_tokens
        if request.num_prompt_tokens < max_model_len < request.num_prompt_tokens + min_tokens:
            raise ValueError(
                f"Request {request.request_id!r}: SamplingParams.min_tokens is {min_tokens}, but behind its "
                f"{request.num_prompt_tokens} prompt tokens max_model_len = {max_model_len} leaves room for "
                f"{max_model_len - request.num_prompt_tokens}: lower it, or shorten the prompt."
            )
        vocab_size = self.runner.model.config.vocab_size
        largest = max(request.all_token_ids)
        if largest >= vocab_size:
            raise ValueError(
                f"Request {request.request_id!r}: the prompt holds token id {largest}, but the model's vocabulary ends "
                f"at {vocab_size - 1}: encode the text with the model's own tokenizer."
            )
        logprobs = request.sampling_params.logprobs or 0
        if logprobs > vocab_size:
            raise ValueError(
                f"Request {request.request_id!r}: SamplingParams.logprobs is {logprobs}, but the model knows "
                f"{vocab_size} tokens: ask for fewer."
            )

    def _complete(self, params: SamplingParams) -> SamplingParams:
        """Adds what the model and chance contribute: the end-of-sequence tokens, and a seed where none was given."""
        if self.tokenizer is not None and not params.ignore_eos:
            params = replace(params, stop_token_ids=(*params.stop_token_ids, *self.tokenizer.eos_token_ids))
        return params if params.seed is not None else replace(params, seed=random.getrandbits(48))

    def has_unfinished_requests(self) -> bool:
        return self.scheduler.has_unfinished_requests()

    def abort_request(self, request_id: str) -> None:
        """Ends a request now and frees its blocks; one that has finished meanwhile, or never was, is no error."""
        with hold_interrupts():
            if request_id in self.scheduler.requests:
                self.scheduler.finish_requests(request_id, RequestStatus.FINISHED_ABORTED)
                self._streams.pop(request_id).finish("abort")

    def step(self) -> list[RequestOutput]:
        """Schedules, computes and samples once.

        Returns:
            The requests that got tokens in this step.

        Raises:
            EngineStuckError: requests are left and none of them can ever be scheduled; they stay where they are.
            KeyboardInterrupt, Exception: Ctrl-C, or whatever the model raises. The requests of the failed step are
                aborted, their blocks are free and forgotten by the prefix cache; the others go on with the next step.
        """
        output = None
        try:
            with hold_interrupts():
                output = self._schedule()
            sampled = self.runner.execute_model(output)
            with hold_interrupts():
                return self._take_in(output, sampled)
        except BaseException:
            if output is not None:
                self._abandon(output)
            raise

    def _schedule(self) -> SchedulerOutput:
        output = self.scheduler.schedule()
        self.runner.update_states(output)
        if output.uncomputed_block_ids:
            new_blocks = output.scheduled_cached_reqs.new_block_ids
            taken_since = {block_id for groups in new_blocks for block_id in itertools.chain(*groups or ())}
            self.scheduler.kv_cache_manager.evict_blocks(set(output.uncomputed_block_ids) - taken_since)
        if not output.num_scheduled_tokens and not output.preempted_req_ids and self.scheduler.requests:
            diagnosis = self.scheduler.diagnose()
            if diagnosis is not None:
                raise EngineStuckError(diagnosis)
        return output

    def _take_in(self, output: SchedulerOutput, sampled: dict[str, SampledTokens]) -> list[RequestOutput]:
        outputs = self.scheduler.update_from_output(
            output, {request_id: tokens.token_ids for request_id, tokens in sampled.items()}
        )
        for data in output.scheduled_new_reqs:
            self._streams[data.req_id].output.num_cached_tokens = data.num_computed_tokens
        self._draft(outputs)
        return [self._deliver(out, sampled[out.request_id]) for out in outputs]

    def _deliver(self, out: EngineCoreOutput, sampled: SampledTokens) -> RequestOutput:
        stream = self._streams[out.request_id]
        stream.append(out.new_token_ids, sampled)
        if out.finish_reason is not None:
            stream.finish(out.finish_reason)
            del self._streams[out.request_id]
        return stream.output

    def _draft(self, outputs: list[EngineCoreOutput]) -> None:
        if self.drafter is None:
            return
        running = self.scheduler.requests
        self.scheduler.update_draft_token_ids(
            {
                out.request_id: self.drafter.propose(running[out.request_id].all_token_ids)
                for out in outputs
                if out.request_id in running
            }
        )

    def _abandon(self, output: SchedulerOutput) -> None:
        """Undoes a step whose model did not finish: what it would have written must not be found by anybody."""
        manager = self.scheduler.kv_cache_manager
        with hold_interrupts():
            for request_id in output.num_scheduled_tokens:
                for block_ids in manager.get_blocks(request_id).get_block_ids():
                    manager.evict_blocks(block_ids)
                self.abort_request(request_id)
