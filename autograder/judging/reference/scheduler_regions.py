"""What stands where in vllm/v1/core/sched/scheduler.py, v0.28.0 (2cf0a6915ce544dc493a0990f2ea38d81601128a).

Read in the source, line by line for ``schedule()``; each region is [first, last], and every line of the file has one.
"""

from __future__ import annotations

from bisect import bisect_right

LAST_LINE = 3003

_REGIONS = (
    (1, "the imports"),
    (70, "Scheduler.__init__, where the limits are read from the configuration"),
    (366, "the alignment of a chunk to Mamba blocks"),
    (443, "the local prefix-cache lookup"),
    (455, "the reserve for a drafter's lookahead at the end of a prefill"),
    (476, "the head of schedule() and its comment: one gap instead of phases"),
    (489, "the empty lists of this step"),
    (496, "the budgets of this step being set, before anything is charged"),
    (504, "the encoder's compute budget and the empty tables of this step"),
    (512, "timestamps, the start of a step in the KV cache manager and the throttling of prefills"),
    (523, "the head of the RUNNING loop"),
    (530, "the RUNNING loop passing over a request that needs no further step or is not due"),
    (558, "the RUNNING loop's gap: known and draft tokens less the computed ones"),
    (563, "the RUNNING loop's cuts of the gap: threshold, budget, model length"),
    (578, "the RUNNING loop's cuts for Mamba blocks, encoder inputs and drafts"),
    (608, "the RUNNING loop passing over a request whose share came out as 0"),
    (628, "the RUNNING loop's allocate_slots"),
    (641, "the choice of a preemption victim, with the refund of what it was given in this step"),
    (680, "the preemption of the victim"),
    (690, "the end of the RUNNING loop when a request preempted itself"),
    (694, "the RUNNING loop noting the request as scheduled"),
    (699, "the RUNNING loop writing the share into num_scheduled_tokens"),
    (700, "the RUNNING loop charging the budget"),
    (702, "the RUNNING loop's cursor and the trimming of draft tokens"),
    (722, "the RUNNING loop's charge of the encoder budget and cache, not of the token budget"),
    (737, "the LoRAs in use, between the two loops"),
    (747, "the gates and the head of the WAITING loop"),
    (760, "the WAITING loop taking the head of a queue"),
    (766, "the WAITING loop passing over blocked requests"),
    (790, "the WAITING loop's limit of LoRAs"),
    (805, "the WAITING loop's prefix lookup, local and by a connector"),
    (906, "the WAITING loop's case of KV that came from elsewhere"),
    (913, "the WAITING loop's start of a share, or its end for an async load"),
    (927, "the WAITING loop's gap, read from the budget but not yet charged"),
    (934, "the WAITING loop's padding for drafts"),
    (952, "the WAITING loop's cuts of the gap: threshold, no chunking, budget"),
    (969, "the WAITING loop's cuts for Mamba blocks, encoder inputs and drafts"),
    (1005, "the WAITING loop's lookahead, cross-attention and reserved blocks"),
    (1033, "the WAITING loop's allocate_slots"),
    (1047, "the end of the WAITING loop when the blocks do not suffice"),
    (1056, "the WAITING loop telling the connector and the statistics of an admission"),
    (1082, "the WAITING loop's case of an async load, which costs no token"),
    (1115, "the WAITING loop moving the request into running"),
    (1127, "the WAITING loop noting LoRAs and blocks of the admitted request"),
    (1132, "the WAITING loop writing the share into num_scheduled_tokens"),
    (1133, "the WAITING loop charging the budget"),
    (1135, "the WAITING loop setting status and num_computed_tokens of the admitted request"),
    (1137, "the WAITING loop's padded drafts and prefills in flight"),
    (1144, "the WAITING loop's charge of the encoder budget and cache, not of the token budget"),
    (1160, "the requests that were passed over going back into their queue"),
    (1169, "the final assertions, which check the budget and charge nothing"),
    (1183, "the building of SchedulerOutput"),
    (1317, "helpers for the connector and for blocks to zero"),
    (1336, "_preempt_request, which resets a victim"),
    (1379, "_update_after_schedule, which advances num_computed_tokens"),
    (1429, "the update of a streaming session"),
    (1472, "the data of requests that the workers know already"),
    (1531, "_try_schedule_encoder_inputs, with the encoder's own budget"),
    (1692, "encoder statistics and the grammar bitmask"),
    (1733, "update_from_output, which takes rejected drafts back"),
    (2139, "the choice between the waiting queues"),
    (2164, "the end or the growth of a request by its output tokens, and the freeing of encoder inputs"),
    (2234, "the arrival of new draft tokens"),
    (2293, "counts, add_request and finish_requests"),
    (2388, "the freeing of requests and blocks"),
    (2470, "queries and resets"),
    (2583, "statistics, shutdown and connectors"),
    (2702, "the blocks of prefills in flight and requests that wait for remote KV"),
)
_STARTS = [start for start, _ in _REGIONS]

RUNNING_CHARGE = range(700, 702)
"""The token budget and the drafter's input budget go down."""
WAITING_CHARGE = range(1133, 1135)


def region(line: int) -> str:
    """What `line` (1-based) belongs to."""
    if not 1 <= line <= LAST_LINE:
        return f"no line of the file, which has {LAST_LINE}"
    return _REGIONS[bisect_right(_STARTS, line) - 1][1]


def regions(first: int, last: int) -> list[str]:
    """The regions that lines `first` to `last` touch, in order, each once."""
    starts = [start for start in _STARTS if first < start <= last]
    return list(dict.fromkeys(region(line) for line in (first, *starts)))
