"""What the notebooks import: predictions, checks, the view of a scheduler's step, and the driver for a planner."""

from minivllm.lesson.checks import check
from minivllm.lesson.first_run import doctor, needs_weights
from minivllm.lesson.in_engine.against import against_vllm, record_with
from minivllm.lesson.in_engine.kernels import run_in_engine
from minivllm.lesson.in_engine.lookup import run_lookup
from minivllm.lesson.in_engine.planner import run_planner
from minivllm.lesson.in_engine.slots import record_slots, run_slots
from minivllm.lesson.load import Arrival, Load, record, watch_load
from minivllm.lesson.measure.drafts import measure_drafts
from minivllm.lesson.measure.schedule import measure_block_sizes, measure_chunks, measure_prefix_hit, real_model
from minivllm.lesson.outcome import ______, door
from minivllm.lesson.practice.block_hashes import check_hash_block_tokens, check_request_block_hasher
from minivllm.lesson.practice.block_slots import check_allocate_slots, check_free, check_get_num_blocks_to_allocate
from minivllm.lesson.practice.cache_hits import check_find_longest_cache_hit, check_max_cache_hit_length
from minivllm.lesson.practice.cache_write import check_cache_write
from minivllm.lesson.practice.call_map import call_graph, check_callers, check_owners
from minivllm.lesson.practice.kept_tokens import check_kept_tokens
from minivllm.lesson.practice.kv_bytes import check_kv_bytes_per_token
from minivllm.lesson.practice.paged_attention import check_paged_attention
from minivllm.lesson.practice.preemption import check_preempt, check_select_victim
from minivllm.lesson.practice.prepare_inputs import check_prepare_inputs
from minivllm.lesson.predict import predict, settle
from minivllm.lesson.triton_here import use_triton
from minivllm.lesson.views.batch_step import batch_step
from minivllm.lesson.views.cost import costs
from minivllm.lesson.views.pictures import (
    block_occupancy,
    budget_over_time,
    kv_bill,
    kv_bill_sliders,
    latency_figure,
    schedule_flow,
    timeline,
)
from minivllm.lesson.views.prefix_cache import hash_chain, prefix_cache, serve
from minivllm.lesson.views.regions import regions, watch_tables
from minivllm.lesson.watch import gaps, watch_step
from minivllm.viz.player import play

__all__ = [
    "Arrival",
    "Load",
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
