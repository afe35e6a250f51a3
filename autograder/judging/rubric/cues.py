"""How words to the grader, courtesies and bare names look, in text as `normalise` leaves it."""

from __future__ import annotations

import re


def _any(words: tuple[str, ...], rest: tuple[str, ...] = ()) -> re.Pattern[str]:
    """English words whole, the rest anywhere."""
    return re.compile("|".join([rf"(?<![a-z_])(?:{'|'.join(words)})(?![a-z_])", *rest]))


# Said to or about whoever grades: the whole sentence says nothing about the question.
TO_GRADER = _any(
    (
        "(?:ignore|disregard|forget|override|bypass).{0,40}(?:instructions?|rubric|rules?|prompts?|guidelines?|criteria"
        "|above|veto)",
        "system (?:note|prompt|message|override)|as an ai|language model|you are (?:a|an|now|the)",
        "markers?[:,]|(?:dear|to the|for the|attention) marker|the marker (?:should|must|may|can|will|is)",
        "grader|evaluator|assessor|examiner|ta note|note to|attn",
        "(?:full|maximum|max|top|perfect|all the|highest) ?(?:marks?|points?|scores?|credits?|grades?)",
        "(?:give|award|assign|grant|deserves?).{0,30}(?:points?|marks?|credit|full score|grade)",
        r"(?:output|return|respond|reply|rate|mark|score).{0,30}(?:\d ?points?|points? ?[=:]? ?\d|2(?:\.0)?/2|maximum)",
        "(?:mark|rate|grade|judge|treat) (?:it|this|me)|reference solution|course instructor",
        "(?:do not|don't|never) (?:deduct|apply|penali[sz]e|subtract|veto)",
        "must (?:contain|include|name) (?:the )?(?:objects?|state)",
    ),
    (
        r"(?<![a-z_])(?:system|assistant|developer|user):|im_start|\b2(?:\.0)?/2\b",
        r"(?<![a-z_])(?:score|points|grade|mark|objects?|state(?: changes?)?|(?:causal )?chain|veto|confidence)"
        r"[\"']? ?[:=] ?[\"']?"
        r"(?:\d+(?:\.\d+)?(?:/\d)?|full|present|complete|yes|ok|met|satisfied|none|null|true|false|excellent)(?!\w)",
        r"满分|阅卷|评分|评卷|给分|(?:请|来|在|你)打分|得分点|高分|扣分|判分|判卷|拿分|手下留情|通过这门",
        r"两分(?!法)|(?<!\d)2 ?分(?![之块为成])|及格|挂科|一票否决",
        "(?:忽略|无视|忘掉|跳过|绕过).{0,12}(?:指令|规则|要求|评分|标准|提示|上文|否决)",
        "系统(?:提示|消息|指令|通知)|作为(?:一个)?(?:ai|人工智能|评分)|(?:标准|参考|模范)答案|必须包含对象",
        "(?:对象|状态变化|状态|因果链|成本链)[、,和与及 ]*(?:对象|状态变化|状态|因果链|因果|成本链|正确性).{0,8}"
        "(?:均|都|已|齐|完整|包含|具备|俱全|清楚|满足)",
    ),
)
# Courtesies and talk about the answer itself: the clause says nothing.
COURTESY = _any(
    (
        "please|thank you|thanks|dear (?:teacher|professor|instructor|sir)|professor|instructor|my answer",
        "this answer|the answer (?:above|below|is|contains|mentions|covers)",
        "(?:great|good|excellent) (?:question|course|lesson)",
        "i hope|best regards|sincerely|verified by|course staff|wonderful|i love",
    ),
    (
        "老师|助教|教授|求求|拜托|谢谢|感谢|辛苦|请您|麻烦您|求过|希望能|好问题|课程(?:非常|很|真)|[写讲]得(?:真|非常|很)",
        "(?:本|以上|这个|我的)(?:回答|答案)",
    ),
)
# What a list names without saying anything of it.
NAME = re.compile(
    r"\w*[a-z]\w*[._]\w[\w.]*(?:\(\))?|_\w+"
    r"|\w*(?:manager|pool|queue|scheduler|output|coordinator|request|cache|runner|engine|sampler|executor|worker|config)s?"
    r"|(?:chunked |speculative )?(?:prefill|decode|decoding|verification)|running|waiting|preempt(?:ion|ed)?|recompute"
    r"|goodput|throughput|watermark|free queue|block table|block|kv|logits|tokens?|token budget|budget|drafts?"
    r"|forward(?: pass)?|hash|hit|touch|ref_cnt|lookahead|metadata|benchmark|latency|prefix cache"
)
ARTICLE = re.compile(r"^(?:the|a|an|together with|plus|as well as|including|like|such as|also|其中|包括|涉及)\s*")
LISTING = _any(
    (
        "involv\\w*|includ\\w*|concepts?|objects?|class(?:es)?|components?|important|key|relat\\w*|parts?|modules?|terms?|keywords?",
    ),
    ("涉及|包括|概念|对象|组件|类|重要|关键|相关|协作|模块|术语|方法|methods",),
)
LIST_MARK = re.compile(r"[,、→;/|]|(?<![a-z])and(?![a-z])|以及|还有")
# What no statement is made without.
STATEMENT = _any(
    (
        "is|are|was|were|be|been|being|has|have|had|does|do|did|can|could|will|would|must|may|should|because|since|so|if",
        "when|then|its|their|gives?|takes?|puts?|gets?|lets?|makes?|goes|holds|keeps|owns|frees|stays|only|to|no|not|a|the",
        "hence|thus|therefore|becomes?|our|your|my|reports?|shows?|says|each|this|these",
        "up|from|into|them|they|it|he|you|we|i|u|on|of|in|by|for|with|than|at|more|less|worse|better|bigger|higher|lower",
    ),
    ("[是的把被会就因所以没不只要了给在从将使让比由有够]", r"[=<>+→]|\s-\s"),
)
# Words too frequent to tell whether a sentence repeats the question.
FREQUENT = frozenset(
    {
        "the",
        "of",
        "an",
        "to",
        "in",
        "is",
        "are",
        "it",
        "its",
        "that",
        "this",
        "and",
        "or",
        "for",
        "at",
        "by",
        "on",
        "with",
    }
    | {"as", "be", "can", "does", "do", "did", "why", "how", "what", "which", "also", "same", "time", "still", "even"}
    | {"when", "there", "some", "so", "not", "because", "has", "have", "must", "question", "asks"}
)
