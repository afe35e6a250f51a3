"""What may refuse a request in the WAITING loop of ``schedule()`` (v0.28.0), as English and Chinese answers name it.

The text is free: it is read by terms, each a regular expression. A term about tokens that comes first decides against
the answer, unless it is only mentioned to be set aside ("besides the token budget", "而不是 token 预算"). What is
offered to choose from ("the budget or the blocks") names nothing, unless every choice is a gate.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_CHECK = r"(?:准入)?(?:检查|条件|门槛|闸门|关卡|限制|校验)"
GATES = {
    "KV blocks": (
        r"allocate[ _]slots",
        r"\bblocks?\b(?! (?:the|every\w*|all|it|them|others?)\b)",
        r"block[ _]?pool",
        r"free_block|free[ _]queue|空闲队列",
        r"kv[ _-]?blocks?",
        r"kv[ _-]?cache(?![ _]*(?:hit|命中))",
        r"(?:kv|gpu)[ _]?memory|memory pool|look-?ahead[ _-]?slots?|(?:memory|free|kv)[ _]pages?",
        r"显存|内存块|(?:物理|空闲|缓存|kv|可用|剩余) ?块|块(?:数|池|表|不足|不够|用尽|够|耗尽|用完)",
        r"(?:没有?|不到|不出|缺)(?:足够的|空闲的?)*块|(?:lookahead ?|前瞻|预读)位|分配(?:不到|不出|失败)",
        r"空闲链表|自由队列|(?:内存|分)页|页(?:面|池|表)|内存池|page (?:pool|table)|free list",
    ),
    "the number of sequences": (
        r"max_num_seqs|max_num_running_reqs|len\((?:self\.)?running\)",
        r"(?:number|count|cap|limit) (?:of|on) (?:running |concurrent )?(?:requests|sequences|seqs)",
        r"(?:running|concurrent) (?:requests|sequences|seqs)|(?:sequence|request|seq)s?[ _-](?:slot|cap|limit|place)s?",
        r"(?:序列|并发|请求)(?:数|上限|槽|个数|名额|总数)|(?:序列|请求)位|(?:running|运行) ?(?:队列|列表)?(?:已经?)?满",
        r"(?:运行|并发)(?:中)?(?:的)?(?:请求|序列)",
    ),
    "the full-sequence gate": (
        r"reserve_full_isl|full_sequence_must_fit|full[ _-]?(?:isl|sequence)",
        r"(?:whole|entire|complete) (?:prompt|sequence|input)|all (?:of )?(?:its |the )?known tokens",
        r"(?:完整|整个|整条|全)(?:的)? ?(?:序列|输入|prompt)|全长" + _CHECK + r"|全部(?:的)?已知(?:的)? ?token",
    ),
    "the watermark": (r"water[ -]?mark", r"水位|水印|警戒线"),
    "the encoder": (r"encoder|编码器|多模态缓存|多模态(?:预算|输入)",),
    "LoRA": (r"lora",),
    "a blocked status": (
        r"blocked[ _](?:waiting[ _])?stat(?:us|e)|blocked_waiting|waiting_for_\w+|skipped_waiting|阻塞",
        r"grammar|structured[ _]output|streaming|语法|结构化输出|流式",
        r"remote[ _]kv|kv[ _]transfer|connector|远[端程] ?kv",
    ),
    "the pause": (r"\bpause|暂停",),
    "a preemption in this step": (r"pre-?empt|kick(?:ed)? out|抢占|抢夺|先占",),
    "stale output": (r"stale[ _]output|陈旧输出",),
    "the throttling of prefills": (r"defer_prefills|throttl|prefill_capacity_bound|节流",),
}
TOKENS = (
    r"token[ _-]?(?:budget|quota|allowance)|input_budget|max_num_batched_tokens|max_num_scheduled_tokens"
    r"|long_prefill_token_threshold",
    r"(?:enable_)?chunked[ _-]prefill",
    r"(?:token|令牌|词元) ?(?:的)?(?:预算|配额)|(?:分块|分段)预填充|长预填充",
)
SOFT_TOKENS = (  # a gate that is right may count in them, such as the blocks for max_model_len tokens
    r"max_model_len|num_new_tokens|num_tokens\w*|number of tokens|tokens? limit",
    r"模型(?:最大)?长度|上下文长度|token ?(?:数|上限)",
)
NO_GATE = (
    r"(?:the |a |an |its )*(?:scheduler|request|sampler|executor|engine|model ?runner|worker|drafter|调度器|请求)s?"
)
"""Owners of other states: bare among gates, they show that it was not known which."""
REST_OF_CLAUSE = r"(?:(?!\bbut\b|而是)[^,.;:，。；：])*"
CONTRAST = (
    r"(?:rather than|instead of|unlike|as opposed to|\bnot (?:about|the|a)\b|而不是|而非|不是|并非|不同于)"
    + REST_OF_CLAUSE
)
BESIDES = (
    r"(?:besides|apart from|aside from|in addition to|other than|beyond|independent(?:ly)? of|regardless of"
    r"|even (?:if|when|with)|while|although|(?:is|are)(?: not|n't)|除|即使|即便|无论|不管|虽然)" + REST_OF_CLAUSE
)
CHOICE = re.compile(r"\bor\b|\beither\b|或者?|还是|/", re.IGNORECASE)
LIST = re.compile(rf"{CHOICE.pattern}|\band\b|\bplus\b|[、|;；,，+&\n→]|->|以及|和|与|及", re.IGNORECASE)
MOST_OFFERED, MOST_LISTED = 3, 4
"""Gates where one is asked for, to choose from or side by side."""


def _any_of(*terms: str) -> re.Pattern[str]:
    return re.compile("|".join(terms), re.IGNORECASE)


_GATE = _any_of(*(term for terms in GATES.values() for term in terms))
_KINDS = {name: _any_of(*terms) for name, terms in GATES.items()}
_TOKENS = _any_of(*TOKENS)
_SOFT_TOKENS = _any_of(*SOFT_TOKENS)
_NO_GATE = _any_of(NO_GATE)
_CONTRAST = _any_of(CONTRAST)
_BESIDES = _any_of(BESIDES)


@dataclass(frozen=True)
class Named:
    """What a text names: `gate`, one that is not about tokens; the term about tokens; what it leaves open."""

    gate: bool = False
    about_tokens: str | None = None
    choice: str | None = None


def named(text: str) -> Named:
    stated = _CONTRAST.sub(_blank, text)
    said = _BESIDES.sub(_blank, stated)
    choice = _choice(said)
    if choice:
        return Named(choice=choice)
    gate, tokens = _GATE.search(stated), _TOKENS.search(said)
    if gate and not (tokens and tokens.start() < gate.start()):
        return Named(gate=True)
    about = tokens or _SOFT_TOKENS.search(stated)
    return Named(about_tokens=about and about[0])


def _choice(said: str) -> str | None:
    """What is left open, if the text lists several things of which not all are gates, or more than a few."""
    gates: dict[str, str] = {}
    wrong: list[str] = []
    parts = [part.strip(" \t`'\".()（）。") for part in LIST.split(said)]
    for part in parts:
        here = {name: part for name, terms in _KINDS.items() if terms.search(part)}
        tokens = _TOKENS.search(part)
        if not here and (tokens or _NO_GATE.fullmatch(part)):
            wrong.append(tokens[0] if tokens else part)
        gates |= here
    offered = bool(CHOICE.search(said))
    if len(gates) > (MOST_OFFERED if offered else MOST_LISTED):
        return f"{len(gates)} gates are listed"
    if gates and wrong and (offered or len(gates) + len(wrong) > 2):
        return f"{wrong[0]!r} stands beside {next(iter(gates.values()))!r}"
    return None


def _blank(match: re.Match[str]) -> str:
    return " " * len(match[0])
