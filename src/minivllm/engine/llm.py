"""Prompts in, answers out: the interface of a notebook.

Mirrors vllm/entrypoints/llm.py (LLM).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tqdm.auto import tqdm

from minivllm.engine.arg_utils import EngineArgs
from minivllm.engine.interrupts import hold_interrupts
from minivllm.engine.llm_engine import LLMEngine, RequestOutput
from minivllm.model.loader import load_model
from minivllm.request import SamplingParams

Prompt = str | Sequence[int]
"""Text, or token ids."""
Message = Mapping[str, str]
"""``{"role": "user", "content": "..."}``."""


class LLM:
    """A model that answers prompts.

    Args:
        model: a name, a path or a Hugging Face id.
        **engine_args: the other fields of EngineArgs.

    Raises:
        ValueError, ModelError: the model or a setting can't be used; the message says which and what to do.
    """

    def __init__(self, model: str | None = None, **engine_args: Any) -> None:
        args = EngineArgs(**engine_args) if model is None else EngineArgs(model=model, **engine_args)
        loaded = load_model(args.model, dtype=args.torch_dtype)
        config = args.create_engine_config(loaded.model)
        self.llm_engine = LLMEngine(loaded.model, loaded.tokenizer, config)
        self._num_requests = 0

    @property
    def kv_cache_report(self) -> str:
        """The size of the KV pool in blocks, tokens and requests of full length, in one line."""
        cache, max_model_len = self.llm_engine.config.cache, self.llm_engine.config.scheduler.max_model_len
        num_blocks = cache.num_gpu_blocks - 1
        num_tokens = num_blocks * cache.block_size
        return (
            f"KV cache: {num_blocks:,} blocks of {cache.block_size} tokens hold {num_tokens:,} tokens, "
            f"{num_tokens / max_model_len:.1f} requests of {max_model_len:,}"
        )

    def generate(
        self,
        prompts: Prompt | Sequence[Prompt],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
        *,
        use_tqdm: bool = True,
    ) -> list[RequestOutput]:
        """Answers every prompt, in the order given.

        Args:
            prompts: one or several, each text or token ids.
            sampling_params: one for all, or one for each; None is ``SamplingParams()``.
            use_tqdm: whether a progress bar is shown.

        Raises:
            ValueError: a prompt can't be used; none is answered.
            KeyboardInterrupt, Exception: from a step; every request of this call is aborted and its blocks are free.
        """
        listed = _as_prompts(prompts)
        params = _one_for_each(SamplingParams() if sampling_params is None else sampling_params, len(listed))
        answers: list[RequestOutput] = []
        try:
            for prompt, param in zip(listed, params, strict=True):
                with hold_interrupts():
                    answers.append(self._add_request(prompt, param))
            unfinished = {answer.request_id for answer in answers}
            with tqdm(total=len(listed), desc="answers", disable=not use_tqdm) as bar:
                while unfinished:
                    finished = {output.request_id for output in self.llm_engine.step() if output.finished} & unfinished
                    unfinished -= finished
                    bar.update(len(finished))
        finally:
            for answer in answers:
                self.llm_engine.abort_request(answer.request_id)
        return answers

    def chat(
        self,
        messages: Sequence[Message] | Sequence[Sequence[Message]],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
        *,
        use_tqdm: bool = True,
    ) -> list[RequestOutput]:
        """Answers one conversation or several, written in the model's chat template; otherwise as ``generate``."""
        conversations: Sequence[Any] = [messages] if messages and isinstance(messages[0], Mapping) else messages
        prompts = [self.encode_chat(conversation) for conversation in conversations]
        return self.generate(prompts, sampling_params, use_tqdm=use_tqdm)

    def stream(self, prompt: Prompt, sampling_params: SamplingParams | None = None) -> Iterator[RequestOutput]:
        """Answers one prompt and gives the growing answer after each step; leaving the loop aborts it."""
        answer = self._add_request(prompt, sampling_params or SamplingParams())
        token_ids, seen = answer.outputs[0].token_ids, 0
        try:
            # The engine may have stepped meanwhile: for another stream, or for a call of generate.
            while not answer.finished or seen < len(token_ids):
                if seen == len(token_ids):
                    self.llm_engine.step()
                if seen < len(token_ids):
                    seen = len(token_ids)
                    yield answer
        finally:
            self.llm_engine.abort_request(answer.request_id)

    def _add_request(self, prompt: Prompt, sampling_params: SamplingParams) -> RequestOutput:
        request_id = str(self._num_requests)
        self._num_requests += 1
        return self.llm_engine.add_request(request_id, prompt, sampling_params)

    def encode_chat(self, messages: Sequence[Message]) -> list[int]:
        """A conversation as the model's chat template writes it, up to where the answer begins, in token ids."""
        tokenizer = self.llm_engine.tokenizer
        assert tokenizer is not None
        return tokenizer.encode(tokenizer.apply_chat_template(messages), add_special_tokens=False)


def _as_prompts(prompts: Prompt | Sequence[Prompt]) -> list[Prompt]:
    if isinstance(prompts, str):
        return [prompts]
    if isinstance(prompts, bytes | Mapping) or not isinstance(prompts, Iterable) or hasattr(prompts, "tolist"):
        raise ValueError(
            f"prompts is a {type(prompts).__name__}, but a prompt is text or a sequence of token ids: decode bytes, "
            "take the text out of a mapping, call tolist() of an array."
        )
    listed: list[Any] = list(prompts)
    return [listed] if listed and isinstance(listed[0], int) else listed


def _one_for_each(params: SamplingParams | Sequence[SamplingParams], count: int) -> list[SamplingParams]:
    if isinstance(params, SamplingParams):
        return [params] * count
    if isinstance(params, Mapping) or not all(isinstance(param, SamplingParams) for param in params):
        raise ValueError(
            f"sampling_params is {params!r}, but must be a SamplingParams or a list of them, such as "
            "SamplingParams(max_tokens=16)."
        )
    if len(params) != count:
        raise ValueError(f"sampling_params holds {len(params)} entries for {count} prompts: give one, or one for each.")
    return list(params)
