"""Ways to get the core wrong, each one line, each against one rule."""

from dataclasses import dataclass

SCHEDULER = "core/sched/scheduler.py"
STEP = "core/sched/step.py"
QUEUE = "core/sched/request_queue.py"
STOP = "core/sched/utils.py"
MANAGER = "core/kv_cache_manager.py"
COORDINATOR = "core/kv_cache_coordinator.py"
TABLES = "core/single_type_kv_cache_manager.py"
POOL = "core/block_pool.py"
BLOCKS = "core/kv_cache_utils.py"
REQUEST = "request.py"
SPEC = "kv_cache_interface.py"
CONFIG = "config.py"


@dataclass(frozen=True)
class Fault:
    """Replace ``right`` by ``wrong`` in a file of the package; ``right`` stands there ``times`` times."""

    rule: str
    file: str
    right: str
    wrong: str
    times: int = 1


FAULTS = [
    Fault(
        "running-first",
        SCHEDULER,
        "        self._schedule_running(step)\n",
        "        self._schedule_waiting(step); self._schedule_running(step)\n",
    ),
    Fault(
        "gap",
        SCHEDULER,
        "request.num_tokens_with_spec - request.num_computed_tokens",
        "request.num_tokens - request.num_computed_tokens",
    ),
    Fault(
        "threshold",
        SCHEDULER,
        "            if 0 < threshold < num_new_tokens:\n                num_new_tokens = threshold\n            # The",
        "            # The",
    ),
    Fault(
        "threshold",
        SCHEDULER,
        "                num_new_tokens = threshold\n            # The",
        "                break\n            # The",
    ),
    Fault(
        "budget-cut",
        SCHEDULER,
        "min(num_new_tokens, budget, self.max_model_len",
        "min(num_new_tokens, budget + 1, self.max_model_len",
    ),
    Fault(
        "max-model-len",
        SCHEDULER,
        "self.max_model_len - request.num_computed_tokens - 1)",
        "self.max_model_len - request.num_computed_tokens)",
    ),
    Fault(
        "zero-is-skipped",
        SCHEDULER,
        "                index += 1\n                continue\n",
        "                break\n",
    ),
    Fault(
        "charge",
        SCHEDULER,
        "            step.charge(request.request_id, num_new_tokens)\n            if new_blocks is not",
        "            step.charge(request.request_id, num_new_tokens - len(request.spec_token_ids))\n            if new_blocks is not",
    ),
    Fault(
        "charge",
        SCHEDULER,
        "            step.charge(request.request_id, num_new_tokens)\n            if drafts",
        "            step.charge(request.request_id, num_new_tokens); step.token_budget += 1; step.input_budget += 1\n            if drafts",
    ),
    Fault(
        "lookahead-is-free",
        SCHEDULER,
        "            step.charge(request.request_id, num_new_tokens)\n            if new_blocks is not",
        "            step.charge(request.request_id, num_new_tokens); step.token_budget -= self.num_lookahead_tokens\n            if new_blocks is not",
    ),
    Fault("drafts-prefix", SCHEDULER, "request.spec_token_ids[:num_drafts]", "request.spec_token_ids[-num_drafts:]"),
    Fault("drafts-prefix", SCHEDULER, "request.spec_token_ids[:num_drafts]", "request.spec_token_ids"),
    Fault(
        "drafts-kept-unreached",
        SCHEDULER,
        "        self.finished_req_ids = set()\n        for",
        "        for request in self.running: request.spec_token_ids = []\n        self.finished_req_ids = set()\n        for",
    ),
    Fault(
        "no-gates-for-running",
        MANAGER,
        "if has_scheduled_reqs and request.status is not RequestStatus.RUNNING:",
        "if has_scheduled_reqs:",
    ),
    Fault(
        "preempt-until-it-fits",
        SCHEDULER,
        "                if victim is request:\n                    return\n",
        "                if True:\n                    return\n",
    ),
    Fault(
        "self-preemption-ends-pass",
        SCHEDULER,
        "                if victim is request:\n                    return\n",
        "                if victim is request:\n                    return self._schedule_running(step)\n",
    ),
    Fault("victim-fcfs", SCHEDULER, "            return len(self.running) - 1\n", "            return 0\n"),
    Fault("victim-priority", SCHEDULER, "return max(range(", "return min(range("),
    Fault(
        "victim-priority",
        SCHEDULER,
        "(self.running[i].priority, self.running[i].arrival_time)",
        "self.running[i].priority",
    ),
    Fault("victim-priority", SCHEDULER, 'if self.scheduler_config.policy == "fcfs":', "if True:"),
    Fault(
        "victim-tie",
        SCHEDULER,
        "return max(range(len(self.running)),",
        "return max(reversed(range(len(self.running))),",
    ),
    Fault("refund", STEP, "        self.token_budget += num_tokens\n", ""),
    Fault("refund", STEP, "        self.input_budget += num_tokens + self.draft_slots\n", ""),
    Fault(
        "refund",
        SCHEDULER,
        "                    step.refund(victim)\n",
        "                    step.running_reqs.remove(victim)\n",
    ),
    Fault("refund", STEP, "        self.spec_decode_tokens.pop(request.request_id, None)\n", ""),
    Fault("cursor", SCHEDULER, "                if victim_index < index:\n                    index -= 1\n", ""),
    Fault("preempted-loses-progress", SCHEDULER, "        request.num_computed_tokens = 0\n", ""),
    Fault(
        "preempted-loses-blocks",
        SCHEDULER,
        "        self.kv_cache_manager.free(request)\n        request.status = RequestStatus.PREEMPTED\n",
        "        request.status = RequestStatus.PREEMPTED\n",
    ),
    Fault(
        "preempted-loses-drafts",
        SCHEDULER,
        "        request.spec_token_ids = []\n        request.num_preemptions",
        "        request.num_preemptions",
    ),
    Fault(
        "preempted-keeps-outputs",
        MANAGER,
        "max_cache_hit_length = request.num_tokens - 1",
        "max_cache_hit_length = request.num_prompt_tokens - 1",
    ),
    Fault(
        "preempted-keeps-outputs",
        SCHEDULER,
        "num_new_tokens = request.num_tokens - num_computed_tokens",
        "num_new_tokens = max(request.num_prompt_tokens - num_computed_tokens, 1)",
    ),
    Fault(
        "preempted-to-the-front",
        QUEUE,
        "        self._queue.appendleft(request)\n",
        "        self._queue.append(request)\n",
    ),
    Fault(
        "preempted-no-bonus",
        QUEUE,
        "        self.add_request(request)\n",
        "        request.priority = -1; self.add_request(request)\n",
    ),
    Fault("no-admission-after-preemption", SCHEDULER, "        if not step.preempted_req_ids:\n", "        if True:\n"),
    Fault(
        "max-num-seqs", SCHEDULER, "len(self.running) < config.max_num_seqs", "len(self.running) <= config.max_num_seqs"
    ),
    Fault("max-num-seqs", SCHEDULER, " and len(self.running) < config.max_num_seqs", ""),
    Fault(
        "waiting-order-fcfs",
        QUEUE,
        "        self._queue.append(request)\n",
        "        self._queue.appendleft(request)\n",
    ),
    Fault("waiting-order-fcfs", QUEUE, "        return self._queue.popleft()\n", "        return self._queue.pop()\n"),
    Fault(
        "waiting-order-priority",
        REQUEST,
        "(self.priority, self.arrival_time, self.request_id) < (",
        "(-self.priority, self.arrival_time, self.request_id) < (",
    ),
    Fault("waiting-order-priority", REQUEST, "            other.arrival_time,\n", "            self.arrival_time,\n"),
    Fault(
        "waiting-threshold",
        SCHEDULER,
        "                num_new_tokens = threshold\n            if not",
        "                pass\n            if not",
    ),
    Fault(
        "chunking-off",
        SCHEDULER,
        "            if not config.enable_chunked_prefill and num_new_tokens > budget:\n                break\n",
        "",
    ),
    Fault(
        "failure-stops",
        SCHEDULER,
        "            if new_blocks is None:\n                break\n",
        "            if new_blocks is None:\n                self.waiting.pop_request(); self.waiting.add_request(request); break\n",
    ),
    Fault("admission-computed", SCHEDULER, "            request.num_computed_tokens = num_computed_tokens\n", ""),
    Fault(
        "admission-running",
        SCHEDULER,
        "            self.running.append(request)\n",
        "            self.running.insert(0, request)\n",
    ),
    Fault("padding", SCHEDULER, "            if pad and num_new_tokens == 1:\n", "            if False:\n"),
    Fault(
        "padding",
        SCHEDULER,
        "            if pad and num_new_tokens == 1:\n",
        "            if self.num_spec_tokens and num_new_tokens == 1:\n",
    ),
    Fault(
        "padding-stops",
        SCHEDULER,
        "self.max_model_len:\n                    break\n",
        "self.max_model_len:\n                    pass\n",
    ),
    Fault(
        "draft-slots",
        STEP,
        "        self.input_budget -= num_tokens + self.draft_slots\n",
        "        self.input_budget -= num_tokens\n",
    ),
    Fault(
        "draft-slots",
        SCHEDULER,
        "self.scheduler_config.max_num_batched_tokens - self.draft_slots",
        "self.scheduler_config.max_num_batched_tokens",
    ),
    Fault(
        "computed-advances",
        SCHEDULER,
        "            request.num_computed_tokens += num_tokens\n",
        "            request.num_computed_tokens += max(num_tokens - 1, 1)\n",
    ),
    Fault(
        "finished-once",
        SCHEDULER,
        "        self.finished_req_ids = set()\n        for",
        "        self.finished_req_ids = set(self.finished_req_ids)\n        for",
    ),
    Fault(
        "hit-cap", MANAGER, "max_cache_hit_length = request.num_tokens - 1", "max_cache_hit_length = request.num_tokens"
    ),
    Fault(
        "hit-cap",
        MANAGER,
        "max_cache_hit_length = request.num_tokens - 1",
        "max_cache_hit_length = request.num_tokens - 2",
    ),
    Fault("skip-reading", MANAGER, " or request.sampling_params.skip_reading_prefix_cache", ""),
    Fault("eagle-drop", TABLES, "        if drop_eagle_block and hits:\n            hits.pop()\n", ""),
    Fault(
        "watermark-size",
        MANAGER,
        "int(config.scheduler.watermark * config.cache.num_gpu_blocks)",
        "round(config.scheduler.watermark * config.cache.num_gpu_blocks)",
    ),
    Fault(
        "watermark-size",
        MANAGER,
        "int(config.scheduler.watermark * config.cache.num_gpu_blocks)",
        "int(config.scheduler.watermark * (config.cache.num_gpu_blocks - 1))",
    ),
    Fault("watermark-idle", MANAGER, "if has_scheduled_reqs and request.status", "if request.status"),
    Fault(
        "watermark-newcomers",
        SCHEDULER,
        "has_scheduled_reqs=bool(self.running)",
        "has_scheduled_reqs=bool(step.running_reqs)",
    ),
    Fault(
        "full-isl",
        SCHEDULER,
        "full_sequence_must_fit=config.scheduler_reserve_full_isl",
        "full_sequence_must_fit=False",
    ),
    Fault(
        "full-isl",
        MANAGER,
        "                min(request.num_tokens, self.max_model_len),\n                hit_blocks",
        "                min(request.num_prompt_tokens, self.max_model_len),\n                hit_blocks",
    ),
    Fault(
        "full-isl",
        MANAGER,
        "                min(request.num_tokens, self.max_model_len),\n                hit_blocks",
        "                request.num_tokens + request.sampling_params.max_tokens,\n                hit_blocks",
    ),
    Fault(
        "full-isl-off",
        SCHEDULER,
        "full_sequence_must_fit=config.scheduler_reserve_full_isl",
        "full_sequence_must_fit=True",
    ),
    Fault("full-isl-cap", SPEC, "block_size) + 1", "block_size)"),
    Fault(
        "full-isl-cap",
        MANAGER,
        "                num_computed_tokens,\n                apply_admission_cap=True",
        "                num_computed_tokens,\n                apply_admission_cap=False",
    ),
    Fault(
        "slots-cap",
        MANAGER,
        "min(num_computed_tokens + num_new_tokens + num_lookahead_tokens, self.max_model_len)",
        "num_computed_tokens + num_new_tokens + num_lookahead_tokens",
    ),
    Fault("lookahead-slots", CONFIG, 'return 0 if self.method == "ngram" else self.num_speculative_tokens', "return 0"),
    Fault(
        "lookahead-slots",
        CONFIG,
        'return 0 if self.method == "ngram" else self.num_speculative_tokens',
        "return self.num_speculative_tokens",
    ),
    Fault(
        "need-counts-free-hits",
        TABLES,
        "            block.ref_cnt == 0 and not block.is_null for block",
        "            False for block",
    ),
    Fault(
        "exact-fit",
        MANAGER,
        "        if num_blocks_to_allocate + watermark_blocks > num_free_blocks():\n            return None\n",
        "        if num_blocks_to_allocate + watermark_blocks >= num_free_blocks() > 0:\n            return None\n",
    ),
    Fault("touch", POOL, "            block.ref_cnt += 1\n", "            block.ref_cnt = 1\n"),
    Fault(
        "touch-leaves-queue",
        POOL,
        "            if block.ref_cnt == 0 and not block.is_null:\n                self.free_block_queue.remove(block)\n",
        "",
    ),
    Fault(
        "new-from-head",
        BLOCKS,
        "        block = self._head.next_free_block\n        for _ in range(n):",
        "        block = self._tail.prev_free_block\n        for _ in range(n):",
    ),
    Fault(
        "evict-on-take",
        POOL,
        "                self._maybe_evict_cached_block(block)\n            block.ref_cnt",
        "                pass\n            block.ref_cnt",
    ),
    Fault(
        "register-known-only",
        MANAGER,
        "min(num_computed_tokens + num_new_tokens, request.num_tokens)",
        "num_computed_tokens + num_new_tokens",
    ),
    Fault(
        "register-at-schedule",
        MANAGER,
        "min(num_computed_tokens + num_new_tokens, request.num_tokens)",
        "num_computed_tokens",
    ),
    Fault("register-again", TABLES, "        self.num_cached_block.pop(request_id, None)\n", ""),
    Fault(
        "caching-off",
        MANAGER,
        "        if self.enable_caching:\n            # Draft",
        "        if True:\n            # Draft",
    ),
    Fault("free-tail-first", TABLES, "free_blocks(reversed(blocks))", "free_blocks(blocks)"),
    Fault(
        "free-unhashed-front",
        POOL,
        "        self.free_block_queue.prepend_n(without_hash)\n",
        "        self.free_block_queue.append_n(without_hash)\n",
    ),
    Fault(
        "free-hashed-back",
        POOL,
        "        self.free_block_queue.append_n(with_hash)\n",
        "        self.free_block_queue.prepend_n(with_hash)\n",
    ),
    Fault(
        "free-order-kept",
        BLOCKS,
        "        for block in blocks:\n            before.next",
        "        for block in reversed(list(blocks)):\n            before.next",
    ),
    Fault(
        "free-keeps-hash",
        POOL,
        "            if block.ref_cnt == 0 and not block.is_null:\n                (",
        "            if block.ref_cnt == 0 and not block.is_null:\n                self._maybe_evict_cached_block(block); (",
    ),
    Fault("shared-stays", POOL, "            block.ref_cnt -= 1\n", "            block.ref_cnt = 0\n"),
    Fault("duplicates-first", POOL, "next(iter(found.values()))", "list(found.values())[-1]"),
    Fault("duplicates-first", POOL, "        elif found is not block:\n", "        elif False:\n"),
    Fault("duplicates-take-over", POOL, "            if found:\n", "            if False:\n"),
    Fault("hash-parent", BLOCKS, "hashlib.sha256(parent_block_hash or NONE_HASH)", "hashlib.sha256(NONE_HASH)"),
    Fault("hash-tokens", BLOCKS, 'array("q", token_ids).tobytes()', 'array("q", token_ids[:1]).tobytes()'),
    Fault("hash-tokens", BLOCKS, 'array("q", token_ids).tobytes()', 'array("q", token_ids[:-1]).tobytes()'),
    Fault("hash-salt", BLOCKS, "    if extra_keys:\n", "    if False:\n"),
    Fault("hash-salt-first", BLOCKS, "if start == 0 and request.cache_salt", "if request.cache_salt"),
    Fault(
        "hash-full-blocks",
        BLOCKS,
        "len(token_ids) - block_size + 1, block_size)",
        "len(token_ids) - block_size + 2, block_size)",
    ),
    Fault("hash-outputs", REQUEST, "            self._update_block_hashes(self._block_hasher)\n", "            pass\n"),
    Fault(
        "hash-group",
        POOL,
        "        cache = self.cached_block_hash_to_block[kv_cache_group_id]\n",
        "        cache = self.cached_block_hash_to_block[0]\n",
    ),
    Fault(
        "reject-rolls-back",
        SCHEDULER,
        "                request.num_computed_tokens -= num_rejected\n",
        "                pass\n",
    ),
    Fault(
        "reject-rolls-back",
        SCHEDULER,
        "len(scheduled_drafts[request_id]) - (len(token_ids) - 1)",
        "len(scheduled_drafts[request_id])",
    ),
    Fault(
        "reject-keeps-blocks",
        TABLES,
        "            return max(num_required_blocks - len(blocks), 0)\n",
        "            del blocks[num_required_blocks:]; return max(num_required_blocks - len(blocks), 0)\n",
    ),
    Fault("min-tokens", STOP, "    if num_output_tokens < params.min_tokens:\n        return False\n", ""),
    Fault("min-tokens", STOP, "num_output_tokens < params.min_tokens", "num_output_tokens <= params.min_tokens"),
    Fault(
        "stop-before-length",
        STOP,
        "    if params.stop_token_ids and",
        "    if num_output_tokens < params.max_tokens and params.stop_token_ids and",
    ),
    Fault("stop-max-tokens", STOP, "num_output_tokens >= params.max_tokens", "num_output_tokens > params.max_tokens"),
    Fault("stop-max-model-len", STOP, "    if num_tokens >= max_model_len or", "    if num_tokens > max_model_len or"),
    Fault("stop-trims", SCHEDULER, "                    del output.new_token_ids[num_new:]\n", ""),
    Fault(
        "finish-frees-at-once",
        SCHEDULER,
        "        for request_id in scheduler_output.num_scheduled_tokens:\n            request = self.requests.get",
        "        for request_id in reversed(list(scheduler_output.num_scheduled_tokens)):\n            request = self.requests.get",
    ),
    Fault(
        "abort",
        SCHEDULER,
        "            request.status = finished_status\n            self._free_request(request)\n",
        "            request.status = finished_status\n            del self.requests[request.request_id]\n",
    ),
    Fault(
        "abort",
        SCHEDULER,
        "        self.finished_req_ids.add(request.request_id)\n",
        "        self.finished_req_ids |= {request.request_id} if request.num_computed_tokens else set()\n",
    ),
    Fault(
        "window-size",
        TABLES,
        "max(num_computed_tokens - self.sliding_window + 1, 0)",
        "max(num_computed_tokens - self.sliding_window, 0)",
    ),
    Fault(
        "window-size",
        TABLES,
        "max(num_computed_tokens - self.sliding_window + 1, 0)",
        "max(num_computed_tokens - self.sliding_window + 2, 0)",
    ),
    Fault(
        "window-release", MANAGER, "        coordinator.remove_skipped_blocks(request_id, num_computed_tokens)\n", ""
    ),
    Fault(
        "window-release-order",
        TABLES,
        "            self.block_pool.free_blocks(removed)\n",
        "            self.block_pool.free_blocks(reversed(removed))\n",
    ),
    Fault(
        "window-run",
        TABLES,
        "return cdiv(sliding_window - 1, block_size) + use_eagle",
        "return cdiv(sliding_window, block_size) + use_eagle",
    ),
    Fault(
        "window-run",
        TABLES,
        "return cdiv(sliding_window - 1, block_size) + use_eagle",
        "return (sliding_window - 1) // block_size + use_eagle",
    ),
    Fault(
        "window-from-right",
        TABLES,
        "        for i in range(max_num_blocks - 1, -1, -1):\n            blocks = block_pool",
        "        for i in range(max_num_blocks - 2, -1, -1):\n            blocks = block_pool",
    ),
    Fault("window-prefix", TABLES, "            num_blocks = num_contiguous\n", "            num_blocks = 0\n"),
    Fault(
        "window-padding",
        TABLES,
        "[self.block_pool.null_block] * num_skipped_blocks + list(hit_blocks)",
        "list(hit_blocks)",
    ),
    Fault(
        "hybrid-smaller-wins",
        COORDINATOR,
        "            hit_length = length\n",
        "            hit_length = full_hit_length or length\n",
    ),
    Fault("hybrid-full-first", COORDINATOR, "min(length + margin, max_cache_hit_length)", "max_cache_hit_length"),
    Fault("hybrid-fixed-point", COORDINATOR, "            if is_simple_hybrid:\n", "            if True:\n"),
    Fault("hybrid-eagle", COORDINATOR, "margin = self.block_size if drop_eagle_block else 0", "margin = 0"),
    Fault("window-one", TABLES, "self.use_eagle) == 0:", "self.use_eagle) < 0:"),
    Fault(
        "hybrid-free",
        COORDINATOR,
        "        for manager in self.single_type_managers:\n            manager.free(request_id)\n",
        "        for manager in reversed(self.single_type_managers):\n            manager.free(request_id)\n",
    ),
]
