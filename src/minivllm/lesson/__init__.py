"""What the notebooks import, all of it by `from minivllm.lesson import *`.

Each notebook has a folder: `questions.py` is what it lets readers predict, `check_*.py` judges their practice,
`in_engine.py` runs their code in the engine, the other files are what it shows. `common/` serves them all, `against/`
compares with recorded runs of vLLM; `outcome.py` and `encoding.py` carry values between a student's code and its tests.
A folder sees `common/` and the folders of earlier notebooks.
"""

from minivllm.lesson.against.compare import against_vllm, record_with
from minivllm.lesson.allocate_slots.check_slots import (
    check_allocate_slots,
    check_free,
    check_get_num_blocks_to_allocate,
)
from minivllm.lesson.allocate_slots.in_engine import record_slots, run_slots
from minivllm.lesson.allocate_slots.regions import regions, watch_tables
from minivllm.lesson.budget_planner.in_engine import run_planner
from minivllm.lesson.common.checks import check
from minivllm.lesson.common.cost import costs
from minivllm.lesson.common.load import Arrival, Load
from minivllm.lesson.common.run import record, watch_load
from minivllm.lesson.common.watch import gaps, watch_step
from minivllm.lesson.on_the_gpu.batch_step import batch_step
from minivllm.lesson.on_the_gpu.check_cache_write import check_cache_write
from minivllm.lesson.on_the_gpu.check_kept_tokens import check_kept_tokens
from minivllm.lesson.on_the_gpu.check_paged_attention import check_paged_attention
from minivllm.lesson.on_the_gpu.check_prepare_inputs import check_prepare_inputs
from minivllm.lesson.on_the_gpu.in_engine import run_in_engine
from minivllm.lesson.on_the_gpu.measure import measure_block_sizes, measure_chunks, measure_prefix_hit, real_model
from minivllm.lesson.on_the_gpu.measure_drafts import measure_drafts
from minivllm.lesson.on_the_gpu.triton_here import use_triton
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
from minivllm.lesson.predictions import predict, settle
from minivllm.lesson.preemption.check_preemption import check_preempt, check_select_victim
from minivllm.lesson.prefix_match.check_block_hashes import check_hash_block_tokens, check_request_block_hasher
from minivllm.lesson.prefix_match.check_cache_hits import check_find_longest_cache_hit, check_max_cache_hit_length
from minivllm.lesson.prefix_match.in_engine import run_lookup
from minivllm.lesson.prefix_match.prefix_cache import hash_chain, prefix_cache, serve
from minivllm.lesson.start_here.check_call_map import call_graph, check_callers, check_owners
from minivllm.lesson.start_here.check_kv_bytes import check_kv_bytes_per_token
from minivllm.lesson.start_here.first_run import doctor, needs_weights
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
