"""What the notebook 5-on-the-gpu asks: each answer is a run of the engine."""

from minivllm.lesson.common.question import Answer, Question, yes_or_no
from minivllm.lesson.on_the_gpu.batch_step import batch_step
from minivllm.lesson.on_the_gpu.measure import (
    BLOCK_SIZES,
    CHUNK_BUDGETS,
    CHUNK_DECODES,
    CHUNK_PROMPT,
    PREFIX_OWN,
    PREFIX_SHARED,
)

_ENDS = ("A begins at", "B begins at", "C begins at", "the end")
_TOKENS = {"A's first token": ("A", 0), "B's token": ("B", 0), "C's last token": ("C", -1)}
SAMPLED, DRAFTS = (11, 12, 40, 7), (11, 12, 13)
_SHARED = (60, 1000)
_SIZES = (BLOCK_SIZES[0], BLOCK_SIZES[-1])


def _query_start_loc() -> Answer:
    found = batch_step()
    starts = found.batch.attn_metadata.query_start_loc.tolist()
    counts = [request["scheduled"] for request in found.requests]
    sums = [" + ".join(map(str, counts[:index])) or "nothing before it" for index in range(len(starts))]
    return Answer(dict(zip(_ENDS, starts, strict=True)), dict(zip(_ENDS, sums, strict=True)))


def _of_tokens(tensor: str) -> Answer:
    found = batch_step()
    meta = found.batch.attn_metadata
    values = {"positions": found.batch.positions, "slot_mapping": meta.slot_mapping}[tensor].tolist()
    starts = dict(zip((r["id"] for r in found.requests), meta.query_start_loc.tolist(), strict=False))
    actual, why = {}, {}
    for name, (request_id, index) in _TOKENS.items():
        request = next(r for r in found.requests if r["id"] == request_id)
        within = index % request["scheduled"]
        position, size = request["computed"] + within, found.block_size
        block = request["block_ids"][position // size]
        actual[name] = values[starts[request_id] + within]
        why[name] = {
            "positions": f"{request['computed']} computed + {within} before it in this step",
            "slot_mapping": f"position {position} is in block {block}: {block} * {size} + {position % size}",
        }[tensor]
    return Answer(actual, why)


def _logits_rows() -> Answer:
    found = batch_step()
    rows = dict(zip(found.batch.req_ids, found.batch.num_sampled, strict=True))
    known = {view.request_id: view.known for view in found.step.before}
    why = {}
    for request in found.requests:
        end = request["computed"] + request["scheduled"]
        why[request["id"]] = (
            f"1 + {found.drafts[request['id']]} drafts: the step reaches its last known token"
            if rows[request["id"]]
            else f"the step ends at {end} of {known[request['id']]} known tokens: there is nothing to sample yet"
        )
    return Answer(rows, why)


def _verification() -> Answer:
    from minivllm.engine.sampler import verify

    kept = verify(SAMPLED, DRAFTS)
    accepted = len(kept) - 1
    return Answer(
        {"drafts accepted": accepted, "tokens kept": len(kept)},
        {
            "drafts accepted": f"{list(DRAFTS[:accepted])}; {DRAFTS[accepted]} is not what the model chose",
            "tokens kept": f"{kept}: the accepted drafts and the model's own {kept[-1]}",
        },
    )


_SAME = "the greedy text is the same"
_TOKENS_COMPUTED = "as many tokens are computed"


def _draft_text() -> Answer:
    import torch

    from minivllm.lesson.on_the_gpu.in_engine import answers, engine_kernels, tiny_engine
    from minivllm.observe.recorder import StepCounter

    device = torch.device("cpu")
    texts, computed = [], []
    for drafts in (0, 3):
        engine = tiny_engine(device, engine_kernels(device), drafts)
        counter = StepCounter(engine.scheduler)
        texts.append(answers(engine))
        computed.append(counter.scheduled_tokens)
    return Answer(
        {_SAME: yes_or_no(texts[0] == texts[1]), _TOKENS_COMPUTED: yes_or_no(computed[0] == computed[1])},
        {
            _SAME: "a draft is kept only where the model's own choice is the same token",
            _TOKENS_COMPUTED: f"{computed[0]} without drafts, {computed[1]} with: rejected ones were computed, too",
        },
    )


_CLOSE, _BITS = "equal up to rounding", "equal bit for bit"


def _split_kv() -> Answer:
    import torch

    from minivllm.kernels import reference

    generator = torch.Generator().manual_seed(1)
    query = torch.randn(1, 4, 16, generator=generator)
    kv_cache = torch.randn(33, 16, 2, 32, generator=generator)
    table = torch.arange(1, 33, dtype=torch.int32)[None]
    lengths = [torch.tensor(values, dtype=torch.int32) for values in ([512], [0, 1])]
    one, split = torch.empty_like(query), torch.empty_like(query)
    reference.paged_attention(one, query, kv_cache, table, *lengths, scale=0.25, max_query_len=1)
    reference.split_kv_attention(split, query, kv_cache, table, *lengths, scale=0.25, max_query_len=1)
    apart = float((one - split).abs().max())
    return Answer(
        {_CLOSE: yes_or_no(apart < 1e-5), _BITS: yes_or_no(torch.equal(one, split))},
        {
            _CLOSE: f"the largest difference is {apart:.1e}",
            _BITS: f"{int((one != split).sum())} of {one.numel()} elements differ: the sums are added in another order",
        },
    )


def _chunk_steps() -> Answer:
    from minivllm.config import CacheConfig, EngineConfig, SchedulerConfig
    from minivllm.core.sched.scheduler import Scheduler
    from minivllm.request import Request, SamplingParams

    actual, why = {}, {}
    for budget in CHUNK_BUDGETS:
        scheduler = Scheduler(EngineConfig(SchedulerConfig(max_num_batched_tokens=budget), CacheConfig()))
        params = SamplingParams(max_tokens=1000, ignore_eos=True)
        for index in range(CHUNK_DECODES):
            scheduler.add_request(Request(f"decode {index}", range(16), params))
        scheduler.update_from_output(output := scheduler.schedule(), {id: [7] for id in output.num_scheduled_tokens})
        scheduler.add_request(long := Request("long", range(1000, 1000 + CHUNK_PROMPT), params))
        shares = []
        while not long.num_output_tokens:
            output = scheduler.schedule()
            shares.append(output.num_scheduled_tokens["long"])
            done = long.num_computed_tokens >= CHUNK_PROMPT
            sampled = {id: [7] if id != "long" or done else [] for id in output.num_scheduled_tokens}
            scheduler.update_from_output(output, sampled)
        actual[f"budget {budget}"] = len(shares)
        why[f"budget {budget}"] = f"the {CHUNK_DECODES} decodes take one token each; the prompt gets {shares}"
    return Answer(actual, why)


def _hit(shared: int, own: int, size: int) -> int:
    """Tokens of a prompt that are found in the cache after another prompt with the same first `shared` tokens."""
    from minivllm.config import CacheConfig, EngineConfig, SchedulerConfig
    from minivllm.core.sched.scheduler import Scheduler
    from minivllm.request import Request, SamplingParams

    scheduler = Scheduler(EngineConfig(SchedulerConfig(), CacheConfig(size, 4096 // size)))
    for index in range(2):
        tokens = [*range(shared), *range(10_000 * (index + 1), 10_000 * (index + 1) + own)]
        scheduler.add_request(Request(str(index), tokens, SamplingParams(max_tokens=1)))
        output = scheduler.schedule()
        scheduler.update_from_output(output, {str(index): [7]})
    return output.scheduled_new_reqs[0].num_computed_tokens


def _prefix_cost() -> Answer:
    length = PREFIX_SHARED + PREFIX_OWN
    hit = _hit(PREFIX_SHARED, PREFIX_OWN, 16)
    return Answer(
        {"cold": length - _hit(0, length, 16), "hit": length - hit},
        {"cold": "nothing of it is cached", "hit": f"{hit} of {length} tokens are cached"},
    )


_BLOCK_SIZE_CASES = {f"{shared} shared, block {size}": (shared, size) for shared in _SHARED for size in _SIZES}


def _block_size_hits() -> Answer:
    actual, why = {}, {}
    for name, (shared, size) in _BLOCK_SIZE_CASES.items():
        actual[name] = _hit(shared, 40, size)
        lost = shared - actual[name]
        why[name] = f"{shared // size} whole blocks of {size}; {lost} of {shared} shared tokens are lost"
    return Answer(actual, why)


_NO_OR_YES = ("yes", "no")
QUESTIONS = (
    Question(
        "query_start_loc",
        "Where do the tokens of A, B and C begin in the batch?",
        _ENDS,
        _query_start_loc,
        ordered=True,
    ),
    Question(
        "token_positions", "Which position has each of these tokens?", tuple(_TOKENS), lambda: _of_tokens("positions")
    ),
    Question("token_slots", "Which slot has each of these tokens?", tuple(_TOKENS), lambda: _of_tokens("slot_mapping")),
    Question("logits_rows", "How many rows of logits does each request get?", ("A", "B", "C"), _logits_rows),
    Question(
        "split_kv",
        "How do one walk over all keys and a split into segments compare?",
        (_CLOSE, _BITS),
        _split_kv,
        choices=_NO_OR_YES,
    ),
    Question(
        "verification",
        "How many drafts are accepted, and how many tokens are kept?",
        ("drafts accepted", "tokens kept"),
        _verification,
    ),
    Question(
        "draft_text", "What do drafts leave as it was?", (_SAME, _TOKENS_COMPUTED), _draft_text, choices=_NO_OR_YES
    ),
    Question(
        "chunk_steps",
        "How many steps until the long prompt's first token?",
        tuple(f"budget {budget}" for budget in CHUNK_BUDGETS),
        _chunk_steps,
    ),
    Question("prefix_cost", "How many tokens are computed before the first token?", ("cold", "hit"), _prefix_cost),
    Question(
        "block_size_hits",
        "How many of the shared tokens are found in the cache?",
        tuple(_BLOCK_SIZE_CASES),
        _block_size_hits,
    ),
)
