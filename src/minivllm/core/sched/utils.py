"""When a request is over, and whether the model's answer fits the question.

Mirrors vllm/v1/core/sched/utils.py (check_stop); vLLM trusts its model runner and checks no answer.
"""

from collections.abc import Mapping, Sequence

from minivllm.core.sched.output import SchedulerOutput
from minivllm.request import Request, RequestStatus, check_token_ids


def check_stop(request: Request, max_model_len: int) -> bool:
    """Whether the last output token ends the request; if so its status is set.

    Below ``min_tokens`` nothing ends it, and a stop token wins over a limit that the same token reaches.
    """
    params = request.sampling_params
    num_tokens = request.num_tokens
    num_output_tokens = num_tokens - request.num_prompt_tokens
    if num_output_tokens < params.min_tokens:
        return False
    if params.stop_token_ids and request.all_token_ids[-1] in params.stop_token_ids:
        request.status = RequestStatus.FINISHED_STOPPED
        return True
    if num_tokens >= max_model_len or num_output_tokens >= params.max_tokens:
        request.status = RequestStatus.FINISHED_LENGTH_CAPPED
        return True
    return False


def check_sampled_token_ids(
    output: SchedulerOutput, sampled_token_ids: Mapping[str, Sequence[int]], requests: Mapping[str, Request]
) -> None:
    """Raises ValueError unless there is a list of token ids for each scheduled request.

    The list is empty amid a prompt, and otherwise holds one token and at most as many more as there were drafts.
    """
    scheduled = output.num_scheduled_tokens
    if sampled_token_ids.keys() != scheduled.keys():
        differing = min(sampled_token_ids.keys() ^ scheduled.keys())
        problem = "has no entry" if differing in scheduled else "has an entry, but was not scheduled"
        raise ValueError(
            f"sampled_token_ids: request {differing!r} {problem}: give one list for each id in "
            "SchedulerOutput.num_scheduled_tokens."
        )
    for request_id, token_ids in sampled_token_ids.items():
        request = requests.get(request_id)
        if request is None:
            continue
        if len(token_ids) != 1 or request.is_prefill_chunk:
            _check_number(request, len(token_ids), len(output.scheduled_spec_decode_tokens.get(request_id, ())))
        for token_id in token_ids:
            if type(token_id) is not int or token_id < 0:
                check_token_ids(f"sampled_token_ids: request {request_id!r}", token_ids)


def _check_number(request: Request, num_sampled: int, num_drafts: int) -> None:
    if request.is_prefill_chunk and num_sampled:
        expected = "none: its last known token is not computed yet"
    elif not request.is_prefill_chunk and not 1 <= num_sampled <= 1 + num_drafts:
        expected = f"one, and at most its {num_drafts} drafts before it"
    else:
        return
    raise ValueError(
        f"sampled_token_ids: request {request.request_id!r} has {num_sampled} tokens, but this step gives {expected}."
    )


def check_draft_token_ids(draft_token_ids: Mapping[str, Sequence[int]], num_spec_tokens: int) -> None:
    """Raises ValueError if a request has more than ``num_spec_tokens`` drafts, or one that is no token id."""
    for request_id, drafts in draft_token_ids.items():
        check_token_ids(f"draft_token_ids of request {request_id!r}", drafts)
        if len(drafts) > num_spec_tokens:
            raise ValueError(
                f"draft_token_ids: request {request_id!r} has {len(drafts)} drafts, but at most "
                f"num_speculative_tokens = {num_spec_tokens} are configured (SpeculativeConfig)."
            )
