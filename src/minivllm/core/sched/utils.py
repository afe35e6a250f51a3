"""When a request is over.

Mirrors vllm/v1/core/sched/utils.py (check_stop).
"""

from minivllm.request import Request, RequestStatus


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
