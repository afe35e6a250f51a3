"""What says nothing about the question: words to the grader, praise, the question and the rubric repeated, bare lists.

Such a sentence is taken out before anything is looked for, so an answer scores the same with it and without it.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from autograder.rubric.segments import Segment, clauses, sentences

# Said to or about whoever grades: the whole sentence goes.
_TO_GRADER = re.compile(
    r"(?<![a-z])(?:ignore|disregard|forget|override|bypass)(?![a-z]).{0,40}(?:instruction|rubric|rule|prompt|guideline|criteria|above|veto)"
    r"|(?<![a-z])(?:system (?:note|prompt|message|override)|system:|assistant:|developer:|user:|<?\|?im_start|as an ai|language model|you are (?:a|an|now|the) )"
    r"|(?<![a-z])(?:grader|marker|evaluator|assessor|examiner|ta note|note to|attn)(?![a-z])"
    r"|(?<![a-z])(?:full|maximum|max|top|perfect|all the|highest) ?(?:marks?|points?|scores?|credits?|grades?)"
    r"|(?<![a-z])(?:give|award|assign|grant|deserves?|output|return|set|add|rate|mark)(?![a-z]).{0,30}(?:points?|marks?|credit|full|score|grade|\b2(?:\.0)?/2|\b100)(?![a-z])"
    r"|(?<![a-z])(?:do not|don't|never) (?:deduct|apply|penali[sz]e|subtract|veto)"
    r"|(?<![a-z])(?:score|points|grade|mark|objects?|state(?: changes?)?|(?:causal )?chain|veto|confidence)[\"']? ?[:=] ?[\"']?(?:\d+(?:\.\d+)?(?:/\d)?|full|present|complete|yes|ok|met|satisfied|none|null|true|false|satisfied|excellent)(?![\w_])"
    r"|满分|阅卷|评分|评卷|给分|打分|得分点|高分|扣分|判分|判卷|拿分|两分|2 ?分|手下留情|通过这门|及格|挂科"
    r"|(?:忽略|无视|忘掉|跳过|绕过).{0,12}(?:指令|规则|要求|评分|标准|提示|上文|否决)|系统(?:提示|消息|指令|通知)|作为(?:一个)?(?:ai|人工智能|评分)"
    r"|一票否决|(?:对象|状态变化|状态|因果链|成本链)[、,和与及 ]*(?:对象|状态变化|状态|因果链|因果|成本链|正确性).{0,8}(?:均|都|已|齐|完整|包含|具备|俱全|清楚|满足)"
    r"|(?:标准|参考|模范)答案|必须包含对象|must (?:contain|include|name) (?:the )?(?:objects?|state)"
)
# Courtesies and meta talk: the clause goes.
_COURTESY = re.compile(
    r"(?<![a-z])(?:please|thank you|thanks|dear (?:teacher|professor|instructor|sir)|teacher|professor|instructor|this answer|my answer|the answer (?:above|below|is|contains|mentions|covers)"
    r"|great (?:question|course|lesson)|good question|excellent (?:question|course)|i (?:hope|really)|best regards|sincerely|verified by|course staff|wonderful|i love)(?![a-z])"
    r"|老师|助教|教授|求求|拜托|谢谢|感谢|辛苦|请您|麻烦您|本(?:回答|答案)|以上(?:回答|答案)|这个回答|我的(?:回答|答案)|好问题|课程(?:非常|很|真)|写得(?:真|非常|很)|讲得(?:真|非常|很)|求过|希望能"
)
_WORD = re.compile(r"[a-z_][a-z0-9_]+|[\u3400-\u9fff]{2}")
_COMMON = frozenset(
    "the of an to in is are it its that this and or for at by on with as be can does do did why how what which also same time what's"
    " still even when there some so not because has have must question asks".split()
)
_NAME = re.compile(r"[a-z_][\w.]*(?:\(\))?(?: [a-z_][\w.]*)?")
_LIST_MARK = re.compile(r"[,、→;/|]|(?<![a-z])and(?![a-z])|以及|还有")
_STATEMENT = re.compile(
    r"(?<![a-z])(?:is|are|was|were|be|been|being|has|have|had|does|do|did|can|could|will|would|must|may|should|because|since|so|if|when|then|its|their"
    r"|gives?|takes?|puts?|gets?|lets?|makes?|goes|holds|keeps|owns|frees|stays|only|to|no|not|a|the|up|from|into|them|they|it|he|you|we|i|u)(?![a-z])"
    r"|[是的把被会就因所以没不只要了给在从将使让比由有够]|[=<>+]"
)


class Reading(NamedTuple):
    """Kept sentences of `text`, which is as long as the text that came in; what went is blank."""

    text: str
    sentences: list[Segment]
    listed: int
    """Bare names that stood in lists."""


def neutral(text: str, question: tuple[str, ...]) -> Reading:
    asked = {word for one in question for word in _words(one.lower())}
    kept: list[Segment] = []
    characters = list(text)
    listed = 0
    for sentence in sentences(text):
        written = text[sentence.start : sentence.end]
        if _TO_GRADER.search(written):
            continue
        if _COURTESY.search(written):
            _without_courtesy(text, sentence, characters)
            written = "".join(characters[sentence.start : sentence.end])
        names = _bare_names(written)
        listed += names
        if names or _repeats(written, asked) or not any(character.isalnum() for character in written):
            continue
        kept.append(sentence)
    return Reading("".join(characters), kept, listed)


def _without_courtesy(text: str, sentence: Segment, characters: list[str]) -> None:
    for clause in clauses(text, sentence):
        if _COURTESY.search(text, clause.start, clause.end):
            characters[clause.start : clause.end] = " " * (clause.end - clause.start)


def _words(text: str) -> list[str]:
    """English words, and every two neighbouring Chinese characters."""
    words = [match for match in re.findall(r"[a-z_][a-z0-9_]+", text) if match not in _COMMON]
    return words + [text[i : i + 2] for i in range(len(text) - 1) if all("\u3400" <= c <= "\u9fff" for c in text[i : i + 2])]


def _repeats(written: str, asked: set[str]) -> bool:
    words = _words(written)
    return len(words) >= 4 and sum(word in asked for word in words) >= 0.72 * len(words)


def _bare_names(written: str) -> int:
    """Names in a sentence that does little but list names; 0 where it says something."""
    parts = [part.strip(" .。:'\"") for part in _LIST_MARK.split(written)]
    parts = [part for part in parts if part]
    names = [part for part in parts if _NAME.fullmatch(part)]
    if len(names) >= 4 and len(names) >= 0.6 * len(parts):
        return len(names)
    words = re.findall(r"[a-z_][\w.]*|[\u3400-\u9fff]+", written)
    if len(words) >= 9 and not _STATEMENT.search(written):
        return len(words)
    return 0
