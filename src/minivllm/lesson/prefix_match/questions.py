"""What the notebook 2-prefix-match asks: each answer is a run of the engine."""

from collections.abc import Sequence

from minivllm.config import CacheConfig, EngineConfig, SchedulerConfig, SpeculativeConfig
from minivllm.core.kv_cache_manager import KVCacheBlocks, KVCacheManager
from minivllm.core.kv_cache_utils import RequestBlockHasher
from minivllm.core.sched.scheduler import Scheduler
from minivllm.core.single_type_kv_cache_manager import FullAttentionManager
from minivllm.lesson.common.load import Arrival, Load
from minivllm.lesson.common.question import Answer, Question
from minivllm.lesson.common.run import Run
from minivllm.lesson.common.why import explain
from minivllm.lesson.prefix_match.in_engine import LOADS
from minivllm.lesson.prefix_match.prefix_cache import serve
from minivllm.request import BlockHash, Request, SamplingParams

BLOCK = 16
LENGTHS = (15, 16, 17, 63, 64, 65)
TWINS = Load([Arrival(name, prompt=64, shared=64) for name in "AB"], budget=128, blocks=12, block_size=BLOCK)
DUPLICATES = Load(
    [*TWINS.arrivals, Arrival("C", prompt=65, shared=64, step=1)], budget=128, blocks=12, block_size=BLOCK
)
RESUME = LOADS["resumed"]
PREFIXES = (100, 1000)


def _engine(block_size: int = BLOCK, blocks: int = 256, speculative: SpeculativeConfig | None = None) -> Scheduler:
    cache = CacheConfig(block_size=block_size, num_gpu_blocks=blocks)
    return Scheduler(EngineConfig(SchedulerConfig(max_num_batched_tokens=2048), cache, speculative))


def _hit(scheduler: Scheduler, num_tokens: int) -> int:
    """The hit of a prompt of `num_tokens` tokens right behind the same prompt."""
    serve(scheduler, "first", range(num_tokens))
    return serve(scheduler, "again", range(num_tokens)).hit


def _floored(num_tokens: int, hit: int, block_size: int = BLOCK) -> str:
    return (
        f"at most {num_tokens} - 1 = {num_tokens - 1} tokens: whole blocks of {block_size} in it: {hit // block_size}"
    )


# ---- the chain


def _hashes(num_tokens: int, salt: str | None = None, change: int | None = None) -> list[BlockHash]:
    """Block hashes (block size 4) of tokens 0, 1, 2, ..., the one at position `change` replaced."""
    tokens = [999 if index == change else index for index in range(num_tokens)]
    request = Request("r", tokens, SamplingParams(), cache_salt=salt)
    request.set_block_hasher(RequestBlockHasher(4))
    return request.block_hashes


def _full_blocks() -> Answer:
    actual = {f"{n} tokens": len(_hashes(n)) for n in (10, 12, 13)}
    return Answer(actual, {name: f"{number} full blocks; the rest has no hash" for name, number in actual.items()})


def _changed_chain() -> Answer:
    original = _hashes(16)
    changed = {
        "another first token": (_hashes(16, change=0), "block 0 changes, and with it the parent of every later block"),
        "another token 9": (_hashes(16, change=9), "token 9 is in block 2: blocks 0 and 1 stay, 2 and 3 change"),
        "another salt": (_hashes(16, salt="tenant-a"), "the salt enters block 0, and the chain carries it on"),
    }
    same = {name: sum(a == b for a, b in zip(original, new, strict=True)) for name, (new, _) in changed.items()}
    return Answer(same, {name: why for name, (_, why) in changed.items()})


# ---- the cap


def _full_hits() -> Answer:
    hits = {n: _hit(_engine(), n) for n in LENGTHS}
    return Answer({f"{n}": hit for n, hit in hits.items()}, {f"{n}": _floored(n, hit) for n, hit in hits.items()})


class WithoutCap(KVCacheManager):
    def get_computed_blocks(self, request: Request) -> tuple[KVCacheBlocks, int]:
        blocks, hit = self.coordinator.find_longest_cache_hit(request.block_hashes, request.num_tokens)
        return KVCacheBlocks(blocks), hit


def _without_cap() -> Answer:
    actual, why = {}, {}
    for n in LENGTHS:
        scheduler = _engine()
        scheduler.kv_cache_manager = WithoutCap(scheduler.config)
        try:
            hit = _hit(scheduler, n)
        except ValueError as error:
            actual[f"{n}"], why[f"{n}"] = "error", f"ValueError: {error}"
        else:
            actual[f"{n}"], why[f"{n}"] = "runs", f"hit {hit}: {n - hit} of {n} tokens left to compute"
    return Answer(actual, why)


# ---- what a lookup changes

_AFTER_LOOKUP, _AFTER_ALLOCATION = "ref_cnt after get_computed_blocks", "ref_cnt after allocate_slots"
_COMPUTED = "num_computed_tokens after allocate_slots"


def _lookup() -> Answer:
    scheduler = _engine(block_size=4)
    serve(scheduler, "A", range(12))
    request = Request("B", range(12), SamplingParams())
    request.set_block_hasher(RequestBlockHasher(4))
    manager = scheduler.kv_cache_manager
    blocks, hit = manager.get_computed_blocks(request)
    first = blocks.blocks[0][0]
    looked_up = first.ref_cnt
    manager.allocate_slots(request, request.num_tokens - hit, hit, blocks)
    return Answer(
        {_AFTER_LOOKUP: looked_up, _AFTER_ALLOCATION: first.ref_cnt, _COMPUTED: request.num_computed_tokens},
        {
            _AFTER_LOOKUP: "A has finished, and looking changes nothing",
            _AFTER_ALLOCATION: "capacity was found, so the hit is touched: +1, and out of the free queue",
            _COMPUTED: "schedule() sets it, after allocate_slots has returned blocks",
        },
    )


# ---- who shares with whom


def _salts() -> Answer:
    scheduler = _engine()
    serve(scheduler, "A", range(33), cache_salt="x")
    salts = {"B": "y", "C": "x", "D": None}
    hits = {name: serve(scheduler, name, range(33), cache_salt=salt).hit for name, salt in salts.items()}
    return Answer(
        hits,
        {
            "B": "salt 'y' gives block 0 another hash than A's 'x'",
            "C": "A's salt, A's chain: " + _floored(33, hits["C"]),
            "D": "no salt is another chain too",
        },
    )


def _twins() -> Answer:
    step = Run(TWINS).step()
    return Answer({name: step.scheduled[name] for name in "AB"}, {name: explain(step, name) for name in "AB"}, (step,))


_IN_USE, _COPIES, _NEW = "blocks in use after step 0", "blocks with the 4th hash", "new blocks for C"


def _duplicates() -> Answer:
    run = Run(DUPLICATES)
    run.step()
    scheduler = run.scheduler
    pool = scheduler.kv_cache_manager.block_pool
    in_use = pool.num_gpu_blocks - 1 - pool.get_num_free_blocks()
    copies = dict(pool.cached_block_hash_to_block[0].items())[scheduler.requests["A"].block_hashes[3]]
    (new,) = run.step().output.scheduled_new_reqs
    hit, table = new.num_computed_tokens, new.block_ids[0]
    return Answer(
        {_IN_USE: in_use, _COPIES: len(copies), _NEW: len(table) - hit // BLOCK},
        {
            _IN_USE: "4 of A and 1 of B, which shares 3 with A",
            _COPIES: f"blocks {', '.join(str(block.block_id) for block in copies)}: both filed, not merged",
            _NEW: f"hit {hit}, table {table}: it finds the copy that was filed first",
        },
    )


# ---- what is evicted


class HeadFirst(FullAttentionManager):
    def free(self, request_id: str) -> None:
        self.num_cached_block.pop(request_id, None)
        self.block_pool.free_blocks(self.req_to_blocks.pop(request_id, []))


def _eviction() -> Answer:
    hits, why = {}, {}
    for order in ("tail first", "head first"):
        scheduler = _engine(block_size=4, blocks=9)
        coordinator = scheduler.kv_cache_manager.coordinator
        if order == "head first":
            coordinator.single_type_managers = (HeadFirst(4, coordinator.block_pool, 0),)
        serve(scheduler, "A", range(14))
        taken = serve(scheduler, "B", range(100, 123)).table
        hits[order] = serve(scheduler, "A again", range(14)).hit
        lost = next(block for block in taken if block in (1, 2, 3))
        why[order] = f"B took {list(taken)}: of A's chain it evicted block {lost}, and a hit ends at the first hole"
    return Answer(hits, why)


# ---- num_tokens, EAGLE, block size


def _resume() -> Answer:
    run = Run(RESUME)
    resumed = None
    while resumed is None:
        step = run.step()
        resumed = next(iter(step.output.scheduled_resumed_reqs), None)
    known, hit = next(view.known for view in step.before if view.request_id == "B"), resumed.num_computed_tokens
    return Answer(
        {"hit": hit, "tokens to compute": step.scheduled["B"]},
        {"hit": _floored(known, hit, 4), "tokens to compute": explain(step, "B")},
    )


def _eagle() -> Answer:
    eagle = SpeculativeConfig(method="eagle", num_speculative_tokens=3)
    hits = {n: _hit(_engine(speculative=eagle), n) for n in (17, 64, 65)}
    why = {f"{n}": f"{_floored(n, hit + BLOCK)}; EAGLE gives the last one back" for n, hit in hits.items()}
    return Answer({f"{n}": hit for n, hit in hits.items()}, why)


def _block_sizes() -> Answer:
    actual, why = {}, {}
    for prefix in PREFIXES:
        for block_size in (16, 64):
            scheduler = _engine(block_size)
            name = f"{prefix} at {block_size}"
            serve(scheduler, "first", [*range(prefix), *_tail(1)])
            hit = actual[name] = serve(scheduler, "second", [*range(prefix), *_tail(2)]).hit
            why[name] = f"{prefix - hit} of {prefix} shared tokens are computed again: {(prefix - hit) / prefix:.1%}"
    return Answer(actual, why)


def _tail(which: int) -> Sequence[int]:
    return range(which * 10_000, which * 10_000 + 200)


QUESTIONS = (
    Question(
        "full_blocks", "How many block hashes does a prompt have at block size 4?",
        ("10 tokens", "12 tokens", "13 tokens"), _full_blocks,
    ),
    Question(
        "changed_chain", "How many of the 4 block hashes stay the same?",
        ("another first token", "another token 9", "another salt"), _changed_chain,
    ),
    Question(
        "full_hit", "How many tokens of a fully cached prompt are hit at block size 16?",
        tuple(map(str, LENGTHS)), _full_hits,
    ),
    Question(
        "without_cap", "What happens to each fully cached prompt without the cap?",
        tuple(map(str, LENGTHS)), _without_cap, choices=("runs", "error"),
    ),
    Question(
        "lookup", "What are these three numbers, for the first block of the hit and for B?",
        (_AFTER_LOOKUP, _AFTER_ALLOCATION, _COMPUTED), _lookup,
    ),
    Question("salts", "How many of their 33 tokens are hit for B, C and D?", ("B", "C", "D"), _salts),
    Question("twins", "How many tokens does each twin compute in the step?", ("A", "B"), _twins),
    Question(
        "duplicates", "How many blocks are in use, have the 4th hash, and are new for C?",
        (_IN_USE, _COPIES, _NEW), _duplicates,
    ),
    Question(
        "eviction", "How many tokens are hit when A's prompt comes back?", ("tail first", "head first"), _eviction
    ),
    Question(
        "resume", "How many tokens are hit when B comes back, and how many are left to compute?",
        ("hit", "tokens to compute"), _resume,
    ),
    Question("eagle", "How many tokens of a fully cached prompt are hit with EAGLE?", ("17", "64", "65"), _eagle),
    Question(
        "block_size", "How many tokens of the shared prefix are hit?",
        tuple(f"{prefix} at {size}" for prefix in PREFIXES for size in (16, 64)), _block_sizes,
    ),
)  # fmt: skip
