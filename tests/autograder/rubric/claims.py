"""One-sentence claims by question, each put behind a right beginning: central false ones, vetoes, and their lookalikes."""

FALSE = {
    "Q1": """
        Budget that a step leaves unused is added to the next one.
        Tokens that a step doesn't use are saved up for later steps.
        这一步没花完的预算会攒到下一步继续用。
        Lookahead slots are charged to the token budget.
        Each lookahead position eats a part of the budget.
        lookahead 位也要从 token_budget 里扣。
        Rejected drafts give their share of this step's budget back, so that others can use it.
        被拒的草稿会把预算还回来，本步可以再分给别人。
        Whoever gets budget is sure to get its blocks.
        拿到预算就一定能拿到块。
        A decode token takes exactly as long as a prefill token, therefore steps take equal time.
        一个 decode token 和一个 prefill token 耗时完全一样。
        After this unification preemption no longer occurs.
        Nothing else has to be managed.
        从此不会再有抢占，KV 块也不用再分配。
        被拒的草稿也不用回退。
        Rejected drafts need no rollback.
        The token budget is held by the KVCacheManager.
        token_budget 归 BlockPool 管。
        每个请求各有一份自己的 token_budget。
        num_computed_tokens counts the tokens that still have to be computed.
        num_computed_tokens 表示还有多少 token 没有算。
        The budget grows with every token that is scheduled.
        每排上一个请求，预算就增加一些。
        Quiet steps bank their unspent tokens for busy ones.
        本步剩余的 token 数会累计，忙的时候再用。
        Draft slots reserved ahead are paid out of the same token budget.
        Since a lookahead slot counts as a token, it lowers the step's budget.
        When a draft is refused the scheduler puts its tokens back into this step's budget.
        A request with budget can never fail for lack of memory.
        只要预算够，块就不可能不够。
        The budget makes the KV allocator superfluous.
        统一之后显存管理也被一并解决，不存在块不够的情况。
        Drafts that fail need not be undone, they simply stay counted.
        被拒 token 的进度不用退，下一步会自动覆盖。
        The GPU worker decides how many tokens each request gets.
        模型执行器决定每个请求的 token 数，调度器不参与。
        The Request decides by itself how much of the budget it takes.
        num_computed_tokens goes down as the model runs.
        验证通过几个 token，num_computed_tokens 就减去几个。
        The budget limits the number of requests, not tokens.
        预算限制的是请求个数。
        The budget is measured in bytes of KV memory.
        In every step only one of the three kinds may run.
        Decode requests get their own budget, apart from prefill.
    """,
    "Q2": """
        The logits of each position lie in the blocks too.
        The cache keeps the logits of the prompt beside K and V.
        采样时可以直接从缓存块里取上次的 logits。
        缓存块里连 logits 也一并存着。
        The hit is therefore always exactly N-1 tokens.
        With blocks of 16 a prompt of 32 reuses 31 tokens.
        所以命中长度永远正好是 N-1，跟块大小没有关系。
        32 个 token、块大小 16 时复用 31 个。
        The last token is recomputed because its key and value are missing from the cache.
        The final token's K and V were never written, hence the recompute.
        因为最后一个 token 的 K/V 还没有写进缓存。
        Otherwise a null pointer would be dereferenced and the process would crash.
        否则会出现空指针，进程直接崩溃。
        The limit is there to leave room for the end-of-sequence token.
        Logits for cached positions can be fetched from the KV cache.
        The final hidden state is saved in the block, so sampling is possible right away.
        The cap always gives a hit of prompt length minus one, whatever the block size.
        不管块多大，都能复用 N-1 个 token。
        Half of the last block is shared too.
        A hit may end in the middle of a block.
        The last token's K/V isn't in the cache yet, which is why it has to be run.
        最后一个 token 的 KV 尚未算出，只好补算。
        Full hits would read beyond the end of an array.
        为了防止访问未初始化的内存。
        The last block is kept private so that generation does not overwrite shared data.
        因为最后一个块会被新 token 写入，不能和别人共享。
        The limit prevents the scheduler from hitting an end-of-text marker.
        限制是为了给即将生成的 token 预留一个槽位。
        The last token's hash cannot be computed until the next token is known.
        It is only there because Python indices start at zero.
    """,
    "Q3": """
        With a larger max_num_seqs the pool is re-partitioned and has more free blocks.
        More sequences mean more KV memory.
        把 max_num_seqs 调大以后，KVCacheManager 会多分配一批 KV 块。
        调大后空闲块就会变多。
        Every failure preempts a running request, also one of a waiting request.
        Each arriving request that finds no block kicks out a running one.
        waiting 里的请求分配失败时也会抢占 running 的请求。
        The victim keeps its progress and continues where it stopped.
        被抢占的请求进度保留，恢复后接着算。
        max_num_seqs is a field of the BlockPool and says how many blocks exist.
        max_num_seqs 归 KVCacheManager，决定块的数量。
        Raising it therefore reduces the number of preemptions.
        调大之后抢占自然会减少。
        With more running requests each one occupies fewer blocks, so free blocks increase.
        The failure comes from an exhausted token budget.
        失败是因为 token 预算用完了。
        So raising it at once is the right reaction.
        因此立即调大是合理的。
        A higher limit lets vLLM reserve more KV memory at run time.
        max_num_seqs times the length gives the number of blocks.
        参数一改，显存里会多划出一些块给新请求。
        Blocks are handed out per sequence slot, so more slots give more blocks.
        Preempted requests are moved to CPU memory and come back without loss.
        被抢占的请求 KV 会换到主机内存，恢复时不用重算。
        allocate_slots raises an exception and the engine stops.
        分配失败会直接 OOM，进程退出。
        New requests push out the old ones whenever there is no block.
        为了让新请求进来，调度器会踢掉正在运行的请求。
        More concurrency relieves the pressure on blocks.
        并发高了，块的压力就小了。
        The tokens of the step were used up, that's why it failed.
        It fails since the concurrency is too low.
        失败的根本原因是并发太低，GPU 没吃满。
        Hence increasing it right away is the proper fix.
        Preempted requests lose nothing, they resume at the same token.
    """,
}
TRUE = {
    "Q1": """
        Unused budget is not carried over to the next step.
        没用完的预算不会留到下一步。
        What a long prompt doesn't get in this step it gets in the next one.
        没算完的部分下一步接着算。
        Lookahead slots need blocks but cost no token budget.
        lookahead 位只占块，不扣预算。
        Rejected drafts roll back progress only; the step's budget stays spent.
        被拒的草稿只退进度，不退预算。
        Having budget doesn't mean having blocks.
        有预算不等于有块。
        Equal token counts do not take equal time.
        同样数量的 token 耗时并不相同。
        It does not remove preemption, and blocks still have to be allocated.
        抢占和块分配都还在。
        The KVCacheManager owns the blocks, the Scheduler the budget.
        块归 BlockPool 管，预算归 Scheduler。
        num_computed_tokens rises with every token that is scheduled.
        每排上一个请求，预算就减少一些。
        The old scheduler had separate prefill and decode steps; this one has none.
        Drafts that fail must be undone, otherwise they would stay counted.
        The budget says nothing about memory: a request with budget can still fail for lack of blocks.
        预算够，块也可能不够。
        Each step's budget is fresh, nothing is banked.
        num_computed_tokens goes up when scheduled and back down by the rejected drafts.
        验证没通过几个，num_computed_tokens 就退回几个。
        Unlike a phase-based design, no step is reserved for one kind.
        Larger budgets let prefills finish earlier but make steps longer.
        If blocks are enough, no preemption happens.
        调度器只看缺口，模型执行器照着跑。
    """,
    "Q2": """
        The logits of each position do not lie in the blocks.
        缓存块里并没有 logits。
        The hit isn't always N-1: with blocks of 16, 32 tokens give 16.
        命中并不总是 N-1，还要按整块向下取整。
        Its key and value are there; what is missing are its logits.
        最后一个 token 的 K/V 其实在缓存里，缺的是 logits。
        No pointer would be null; the scheduler would just have no token to run.
        It has nothing to do with an end-of-sequence token.
        The lookup itself changes no reference count.
        Logits can't be fetched from the KV cache, they were thrown away.
        A hit can't end in the middle of a block.
        With 33 tokens and blocks of 16 the hit is 32.
        The shared blocks themselves are only read.
        Resumed requests count their outputs too: num_tokens, not the prompt length.
        Without the cap num_new_tokens would be 0 and an assertion would fire.
    """,
    "Q3": """
        Raising the cap does not make the KVCacheManager allocate a single additional block.
        把 max_num_seqs 调大，KVCacheManager 也不会多分配一块。
        A failure of a waiting request preempts nobody; the loop just breaks.
        waiting 里的请求分配失败只会 break，不会抢占别人。
        The victim loses its progress.
        被抢占的请求进度不保留。
        Raising it does not reduce preemption.
        调大并不会减少抢占，只会增加。
        Lowering it reduces the number of preemptions.
        要减少抢占，应当调小并发或者增大块池。
        The token budget has nothing to do with this failure.
        So raising it at once is not the right reaction.
        Raising it is only right when the cap binds and blocks are free.
        A larger pool, from gpu_memory_utilization, would give more blocks.
        New requests don't push anybody out, admission just stops.
        The victim is the request admitted last.
        Preempted requests lose their progress but their hashed blocks may be found again.
        Nothing is moved to CPU memory; everything is computed again.
        If requests wait while blocks are free, then raising it makes sense.
        More requests need more blocks than the pool has.
        Fewer concurrent requests, a watermark or a larger pool would help instead.
        一次调大，下一步 running 变长，块更快见底。
    """,
}
VETOES = {
    "Q1": """
        The paper reports 2-4x throughput, which is what any deployment will see.
        A vendor benchmark gives 23x, and that is the figure to plan capacity with.
        官方博客测得吞吐提升 24 倍，所以生产环境就能拿到 24 倍。
        论文里延迟降了 60%，我们上线后也会降 60%。
        As the code contains chunked prefill, it runs on every GPU and for every architecture.
        源码里有这个分支，所以什么模型、什么显卡、什么后端都可以直接打开。
        vLLM 里已经实现了，任何硬件都能直接用。
        The bigger budget is faster, which proves that the outputs are correct.
        预算越大吞吐越高，这就保证了输出一定正确。
        Rolling back rejected drafts is just a speed tweak and can be left out without changing the text.
        vLLM's paper measured a 24-fold gain; you get it by switching it on.
        发布会上说吞吐翻了 5 倍，我们照这个数规划容量。
        Microsoft's blog promises 50 % lower latency, and so will every cluster see it.
        Because there is a branch for it in scheduler.py, TPUs, AMD cards and all models profit alike.
        vLLM 源码支持投机验证，故而一切模型与加速卡皆可开启。
    """,
    "Q2": """
        The original publication shows a hit rate of 87 %, and a production service gets the same.
        厂商宣传首 token 快 10 倍，打开之后每个业务都快 10 倍。
        Since prefix caching exists in the code base, it can be enabled with any model on any accelerator.
        仓库里写了 prefix cache，因此所有模型和所有硬件都支持。
        This limit is merely a tuning knob; one may disable it without any effect on what the model generates.
        n-1 只是性能上的考虑，去掉以后结果照旧。
        The cap exists purely to save compute and dropping it leaves the outputs as they are.
        这个上限不过是个优化，不要它输出也一样。
        SGLang's paper reports 6.4x, hence our chat service becomes 6.4 times faster.
        论文报告命中率 90%，生产环境也就是 90%。
        The function get_computed_blocks is in the repository, thus every architecture, Mamba included, can use it on whatever chip.
        The minus one is for speed alone; take it out and the same tokens appear.
        减一这一步可以省，省了只会更快，结果一模一样。
        It may be switched off by anyone who wants more speed, the answers stay identical.
    """,
    "Q3": """
        The original publication reports up to 24x over the baseline and one should plan capacity with that in production.
        官方 benchmark 显示并发 256 时吞吐是 3.5 倍，所以生产上设成 256 就能得到 3.5 倍。
        fp8 KV cache has a flag in the source, meaning that it works on all hardware and with all backends.
        源码里有 connector，所以任何模型、任何卡都能开 offload。
        Preemption makes the generated text wrong, so the cap must be low for the outputs to be correct.
        抢占会让输出变错，所以为了正确性不能调大。
        A published benchmark served 1000 users per GPU, so our cluster serves 1000 users per GPU.
        白皮书写着可以撑 512 并发，任何部署都可以照着设 512.
        CPU offload is implemented in vLLM, so any GPU and any model can rely on it.
        抢占一次，生成的内容就会错一段，因此上限影响正确性。
    """,
}
NEAR_MISSES = {
    "Q1": """
        The paper reports 2-4x throughput on their workload; ours must be benchmarked.
        官方博客测得吞吐提升 24 倍，那是他们的环境，我们要自己压测。
        A blog claims 3x, which says nothing about our hardware.
        论文的 60% 不能直接当成线上的收益。
        The code contains chunked prefill, but not every backend supports it.
        源码里有这个分支，不代表任何硬件都能用，要查后端。
        A bigger budget may be faster; whether the outputs are correct is another question.
        预算大小只影响快慢，不影响输出正确。
        Without the rollback of rejected drafts the outputs would be wrong: this is correctness, not speed.
        The paper's 24-fold gain was on OPT-13B with an A100; what we get, a benchmark must tell.
        发布会上的 5 倍只在那种负载下成立。
        There is a branch for it in scheduler.py; TPU and AMD support is listed elsewhere and must be looked up.
    """,
    "Q2": """
        The publication shows a hit rate of 87 % for their trace; another workload may differ.
        厂商说首 token 快 10 倍，换个负载未必，要实测。
        Prefix caching exists in the code base; whether your model supports it has to be checked.
        仓库里写了 prefix cache，不等于所有模型都支持。
        This limit is no tuning knob: without it nothing could be sampled.
        n-1 不是性能优化，去掉就没法采样。
        The recompute of a block costs a little time, but the cap itself is a matter of correctness.
        On my 4090 the first token came 5x faster, with an 8B model and this prompt only.
        SGLang's paper reports 6.4x, which I would not promise for our chat service.
        Taking the minus one out is impossible: no logits, no first token.
        减一不能省，省了就没有 logits。
    """,
    "Q3": """
        The publication reports up to 24x, but with blocks to spare and on their hardware.
        官方 benchmark 的 3.5 倍是他们的卡，不能照搬到生产。
        fp8 KV cache has a flag in the source; check that the backend supports it.
        Preemption costs time but never makes the generated text wrong.
        抢占只影响延迟，不会让输出变错。
        In my run the cap of 8 cut the steps from 240 to 149 with 17 blocks, a toy only.
        A published benchmark served 1000 users per GPU with short prompts; ours are long.
        CPU offload is implemented, though not for each backend.
    """,
}
BASE = {
    "Q1": (
        "The Scheduler has a token budget per step. The gap is num_tokens_with_spec - num_computed_tokens, and a prompt, "
        "a decode and a verification differ only in that gap. "
    ),
    "Q2": (
        "The blocks hold K/V and no logits, so nothing can be sampled unless the last position runs again; "
        "get_computed_blocks caps the hit. "
    ),
    "Q3": (
        "allocate_slots returns None when the BlockPool has too few free blocks; max_num_seqs is only the Scheduler's cap "
        "on running, and more requests share the same blocks. "
    ),
}


def claims(of: dict[str, str]) -> list[tuple[str, str]]:
    return [(question, line.strip()) for question, text in of.items() for line in text.strip().splitlines()]
