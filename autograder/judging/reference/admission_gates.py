"""What may refuse a request in the WAITING loop of ``schedule()`` (v0.28.0), as English and Chinese answers name it.

The text is free: it is read by terms, each a regular expression. A term about tokens that comes first decides against
the answer, unless it is only mentioned to be set aside ("besides the token budget", "而不是 token 预算").
"""

from __future__ import annotations

import re

GATES = {
    "KV blocks": (
        r"allocate[ _]slots",
        r"\bblocks?\b(?! (?:the|every\w*|all|it|them|others?)\b)",
        r"block[ _]?pool",
        r"free_block",
        r"kv[ _-]?blocks?",
        r"kv[ _-]?cache(?![ _]*(?:hit|命中))",
        r"(?:kv|gpu)[ _]?memory",
        r"显存|内存块|(?:物理|空闲|缓存|kv) ?块|块(?:数|池|不足|不够|用尽|够)",
    ),
    "the number of sequences": (
        r"max_num_seqs|max_num_running_reqs|len\((?:self\.)?running\)",
        r"(?:number|count|cap|limit) (?:of|on) (?:running |concurrent )?(?:requests|sequences|seqs)",
        r"(?:running|concurrent) (?:requests|sequences|seqs)|sequence (?:slot|cap|limit)",
        r"(?:序列|并发|请求)(?:数|上限|槽|个数)",
    ),
    "the full-sequence gate": (
        r"reserve_full_isl|full_sequence_must_fit|full[ _-]?(?:isl|sequence)",
        r"(?:完整|整个|整条)(?:的)?(?:序列|输入)",
    ),
    "the watermark": (r"watermark|水位",),
    "the encoder": (r"encoder|编码器|多模态缓存",),
    "LoRA": (r"lora",),
    "a blocked status": (
        r"blocked[ _](?:waiting[ _])?status|blocked_waiting|waiting_for_\w+|skipped_waiting|阻塞状态",
        r"grammar|structured[ _]output|streaming|语法|结构化输出|流式",
        r"remote[ _]kv|kv[ _]transfer|connector|远[端程] ?kv",
    ),
    "the pause": (r"\bpause|暂停",),
    "a preemption in this step": (r"preempt|抢占",),
    "stale output": (r"stale[ _]output|陈旧输出",),
    "the throttling of prefills": (r"defer_prefills|throttl|prefill_capacity_bound|节流",),
}
TOKENS = (
    r"token[ _-]?budget|input_budget|max_num_batched_tokens|max_num_scheduled_tokens|long_prefill_token_threshold",
    r"(?:enable_)?chunked[ _-]prefill",
    r"(?:token|令牌|词元) ?(?:的)?预算|分块预填充|长预填充",
)
SOFT_TOKENS = (  # a gate that is right may count in them, such as the blocks for max_model_len tokens
    r"max_model_len|num_new_tokens|num_tokens\w*|number of tokens|tokens? limit",
    r"模型(?:最大)?长度|上下文长度|token ?(?:数|上限)",
)
REST_OF_CLAUSE = r"(?:(?!\bbut\b|而是)[^,.;:，。；：])*"
CONTRAST = (
    r"(?:rather than|instead of|unlike|as opposed to|\bnot (?:about|the|a)\b|而不是|而非|不是|并非|不同于)"
    + REST_OF_CLAUSE
)
BESIDES = (
    r"(?:besides|apart from|aside from|in addition to|other than|beyond|independent(?:ly)? of|regardless of"
    r"|even (?:if|when|with)|while|although|(?:is|are)(?: not|n't)|除|即使|即便|无论|不管|虽然)" + REST_OF_CLAUSE
)


def _any_of(*terms: str) -> re.Pattern[str]:
    return re.compile("|".join(terms), re.IGNORECASE)


_GATE = _any_of(*(term for terms in GATES.values() for term in terms))
_TOKENS = _any_of(*TOKENS)
_SOFT_TOKENS = _any_of(*SOFT_TOKENS)
_CONTRAST = _any_of(CONTRAST)
_BESIDES = _any_of(BESIDES)


def names_gate(text: str) -> tuple[bool, str | None]:
    """Whether `text` names a gate that is not about tokens; if not, the term about tokens that it names, if any."""
    stated = _CONTRAST.sub(_blank, text)
    gate = _GATE.search(stated)
    tokens = _TOKENS.search(_BESIDES.sub(_blank, stated))
    if gate and not (tokens and tokens.start() < gate.start()):
        return True, None
    about = tokens or _SOFT_TOKENS.search(stated)
    return False, about and about[0]


def _blank(match: re.Match[str]) -> str:
    return " " * len(match[0])
