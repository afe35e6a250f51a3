"""What the notebooks import: predictions, checks, the view of a scheduler's step, and the driver for a planner."""

from minivllm.lesson.against import against_vllm, record_with
from minivllm.lesson.attention_practice import check_paged_attention
from minivllm.lesson.batch_practice import check_prepare_inputs
from minivllm.lesson.batch_step import batch_step
from minivllm.lesson.cache_write_practice import check_cache_write
from minivllm.lesson.checks import check
from minivllm.lesson.cost import costs
from minivllm.lesson.first_run import doctor, needs_weights
from minivllm.lesson.kernels_in_engine import run_in_engine
from minivllm.lesson.kv_practice import check_kv_bytes_per_token
from minivllm.lesson.load import Arrival, Load, record, watch_load
from minivllm.lesson.map_practice import call_graph, check_callers, check_owners
from minivllm.lesson.measure import measure_block_sizes, measure_chunks, measure_prefix_hit, real_model
from minivllm.lesson.measure_drafts import measure_drafts
from minivllm.lesson.outcome import ______, door
from minivllm.lesson.pictures import (
    block_occupancy,
    budget_over_time,
    kv_bill,
    kv_bill_sliders,
    latency_figure,
    schedule_flow,
    timeline,
)
from minivllm.lesson.planner import run_planner
from minivllm.lesson.predict import predict, settle
from minivllm.lesson.preemption_practice import check_preempt, check_select_victim
from minivllm.lesson.prefix_hashes import check_hash_block_tokens, check_request_block_hasher
from minivllm.lesson.prefix_hits import check_find_longest_cache_hit, check_max_cache_hit_length
from minivllm.lesson.prefix_lookup import run_lookup
from minivllm.lesson.prefix_view import hash_chain, prefix_cache, serve
from minivllm.lesson.regions import regions
from minivllm.lesson.slots_load import SlotsLoad, watch_tables
from minivllm.lesson.slots_practice import check_allocate_slots, check_free, check_get_num_blocks_to_allocate
from minivllm.lesson.slots_run import record_slots, run_slots
from minivllm.lesson.triton_here import use_triton
from minivllm.lesson.verify_practice import check_kept_tokens
from minivllm.lesson.watch import gaps, watch_step
from minivllm.viz.player import play

__all__ = [
    "Arrival",
    "Load",
    "SlotsLoad",
    "______",
    "against_vllm",
    "batch_step",
    "block_occupancy",
    "budget_over_time",
    "call_graph",
    "check",
    "check_allocate_slots",
    "check_cache_write",
    "check_callers",
    "check_find_longest_cache_hit",
    "check_free",
    "check_get_num_blocks_to_allocate",
    "check_hash_block_tokens",
    "check_kept_tokens",
    "check_kv_bytes_per_token",
    "check_max_cache_hit_length",
    "check_owners",
    "check_paged_attention",
    "check_preempt",
    "check_prepare_inputs",
    "check_request_block_hasher",
    "check_select_victim",
    "costs",
    "doctor",
    "door",
    "gaps",
    "hash_chain",
    "kv_bill",
    "kv_bill_sliders",
    "latency_figure",
    "measure_block_sizes",
    "measure_chunks",
    "measure_drafts",
    "measure_prefix_hit",
    "needs_weights",
    "play",
    "predict",
    "prefix_cache",
    "real_model",
    "record",
    "record_slots",
    "record_with",
    "regions",
    "run_in_engine",
    "run_lookup",
    "run_planner",
    "run_slots",
    "schedule_flow",
    "serve",
    "settle",
    "timeline",
    "use_triton",
    "watch_load",
    "watch_step",
    "watch_tables",
]
