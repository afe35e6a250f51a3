"""Which part of a clause is denied.

A negation reaches from its word to the end of the clause, at most a few words far. "Not only", "no matter" and the
like deny nothing. "3 of 4 are not stored" denies the verb, which is enough: a pattern names the verb too.
"""

from __future__ import annotations

import re

from autograder.judging.rubric.segments import Segment

_NO = re.compile(
    r"(?<![a-z_])(?:not|never|cannot|neither|nor|without|lacks?|lacking|no longer|no|nothing|nowhere|rather than"
    r"|instead of|fails? to|(?:is|are|was|were|does|do|did|has|have|had|would|could|should|must|need|can|wo|won|ca)n'?t"
    r"|false that|wrong that|untrue that|free of|devoid of|unable to|refuses to)(?![a-z_])"
    r"|并不是|并非|不是|而非|不再|不会|不能|不用|不需要|不必|无需|无须|毋须|没有|从不|从未|未曾|毫无|缺少|缺乏|没|无|不|未|非|莫|勿|别"
)
_NOT_A_NO = re.compile(
    r"(?<![a-z_])(?:not only|not just|not merely|no matter|no doubt|not to mention|not until|no more than|nothing but"
    r"|no wonder|no\.)(?![a-z_])"
    r"|不仅|不但|不只是|不只|不单|不光|不止|不管|不论|无论|不同|不断|不得不|不足|不够|不过|不妨|无非|不变|不合理|不可避免|不等于|不超过|不大于|不小于|不低于|不多于|不少于|不如|不对|不少"
    r"|不久|不定|不行|不好|不该|不应|不一样|不一致|除非|非常|差不多|不然|毫无疑问|无疑|并非常|区别|分别|别人|别的|个别|级别|特别|识别|类别|别处|未来"
    r"|不在乎|不介意|不在意|不怕|不住|不下|不到|不了|不出|不起|不满|没法|无法|未必|不管"
)
# A negation written after the first words of one of these still denies what follows.
_REACH_CJK = 16
_REACH_LATIN = 64
_STOPS = re.compile(r"(?<![a-z])(?:and|but|as|only)(?![a-z])|就|才|只|却|反而|也就")


def denied(text: str, clause: Segment) -> list[Segment]:
    """The reach of each negation of the clause, from behind its word."""
    spared = [match.span() for match in _NOT_A_NO.finditer(text, clause.start, clause.end)]
    reaches: list[Segment] = []
    for match in _NO.finditer(text, clause.start, clause.end):
        if any(start <= match.start() < end for start, end in spared):
            continue
        latin = sum(character < "\u3400" for character in text[match.end() : match.end() + _REACH_CJK])
        reach = _REACH_LATIN if latin > _REACH_CJK // 2 else _REACH_CJK
        end = min(clause.end, match.end() + reach)
        stop = _STOPS.search(text, match.end() + 2, end)
        reaches.append(Segment(match.end(), stop.start() if stop else end))
    return reaches
