"""The course's terms, in both languages, are understood by every grader, and no grader speaks in other words."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import nbformat
import pytest
import yaml

import autograder.judging as judging
from autograder.judging.parts import grade
from autograder.judging.reference import admission_gates
from autograder.judging.reference.source_mapping import PARTS
from autograder.judging.rubric.answers import read_answers
from autograder.judging.rubric.points import QUESTIONS
from autograder.judging.rubric.scorer import judge
from autograder.paths import CLONE, COURSE
from minivllm.lesson.outcome import door
from tests.autograder.rubric.claims import BASE
from tests.autograder.rubric.data import PARAPHRASES, PUBLIC, SECOND
from tests.autograder.test_source_mapping import RIGHT

GLOSSARY = CLONE / "docs" / "glossary.md"
GATES = {  # by the English of the glossary's row: a term of it alone names a condition of admission
    "full-sequence gate",
    "watermark",
    "preempt, preemption",
    "sequence slot",
    "block pool",
    "block table",
    "lookahead slots",
    "free queue",
}
TOKENS = {"token budget", "chunked prefill"}


@cache
def rows() -> dict[str, tuple[list[str], list[str], list[str], list[str]]]:
    """English, Chinese, what is not written in Chinese, and in English; by the English cell."""
    found = {}
    for line in GLOSSARY.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| ") and cells[0] != "English":
            chinese, not_chinese, not_english = (re.split(r"[，；、,;]\s*", cell) for cell in cells[1:4])
            english = re.split(r"[,;]\s*", re.sub(r" \(.*\)", "", cells[0]))
            found[cells[0]] = (english, chinese, [t for t in not_chinese if t], [t for t in not_english if t])
    assert len(found) > 40
    return found


def of_rows(names: set[str]) -> list[str]:
    assert names <= rows().keys(), "the glossary has changed: say here which of its rows name a gate"
    return [term for name in sorted(names) for cell in rows()[name] for term in cell if term != "kick out"]


def other_gate(text: str) -> tuple[float, str]:
    report = grade(PARTS, door({"source_mapping": RIGHT | {"other_gate": text}}))
    return report.parts["other_gate"], " ".join(report.messages)


@pytest.mark.parametrize("term", of_rows(GATES))
def test_a_gate_of_the_glossary_is_a_gate_in_either_language_and_in_the_words_that_the_course_avoids(term: str) -> None:
    for text in (term, f"no {term}" if term.isascii() else f"没有{term}", f"`{term}`"):
        assert other_gate(text) == (0.25, ""), text


@pytest.mark.parametrize("term", of_rows(TOKENS))
def test_a_term_about_tokens_is_none(term: str) -> None:
    points, says = other_gate(term)
    assert points == 0 and "counts tokens" in says


COURSE_SAYS = {
    "en": (
        "nothing was preempted in this step",
        "the scheduler is not paused",
        "a sequence slot is free",
        "requests in blocked states",
        "encoder budget and cache",
        "LoRA and sequence caps",
        "lookahead slots",
        "the full-sequence gate",
        "the watermark stays free",
        "`scheduler_reserve_full_isl`",
        "all known tokens would fit",
        "`allocate_slots` must find blocks",
        "whole prompt fits",
        "free blocks",
    ),
    "zh": (
        "空闲的序列位",
        "没有发生抢占",
        "调度器没有暂停",
        "处于阻塞状态的请求",
        "encoder 的预算与缓存",
        "LoRA 和序列数上限",
        "lookahead 位",
        "全序列门槛",
        "水位线是否仍然空着",
        "全部已知 token 是否放得下",
        "拿不到块",
        "空闲块",
        "整个 prompt 都放得下",
    ),
}


@pytest.mark.parametrize("language", list(COURSE_SAYS))
def test_what_the_course_itself_calls_the_gates_is_accepted(language: str) -> None:
    prose = ""
    for path in [*sorted((COURSE / language).rglob("*.ipynb")), *sorted((CLONE / "solutions").rglob("1-*.md"))]:
        if path.suffix == ".md":
            prose += path.read_text(encoding="utf-8")
        else:
            cells = nbformat.read(path, as_version=4).cells  # type: ignore[no-untyped-call]
            prose += "\n".join(cell.source for cell in cells)
    for text in COURSE_SAYS[language]:
        assert text in prose, f"the course no longer says {text!r}"
        assert other_gate(text) == (0.25, ""), text


@pytest.mark.parametrize(
    "text",
    [
        "没有空闲的序列位",
        "序列位已经用完",
        "请求位不足",
        "running 已满",
        "全序列门槛",
        "全序列准入检查",
        "全序列准入条件",
        "全序列闸门",
        "启用全序列准入检查时，整个 prompt 放不下",
        "停用全序列准入检查就不看这个",
        "准入检查：空闲块够不够",
        "准入条件之一：水位线",
        "完整序列门槛",
        "全长闸门",
        "整个序列都要放得下",
        "块不够",
        "块用完了",
        "块池没有空闲块",
        "no free sequence slot",
        "all request slots are taken",
        "the full-sequence admission check",
        "the entire prompt has to fit",
        "the low-water mark",
        "a reserve of free pages",
        "somebody was preempted earlier in this step",
        "the encoder cache is full",
        "多模态预算",
        "分配不到块",
    ],
)
def test_other_writers_words_for_the_gates_are_accepted(text: str) -> None:
    assert other_gate(text) == (0.25, "")


# --- the rubric ------------------------------------------------------------------------------------------------------

TRUE = {  # one true sentence for each row of the glossary, in the course's words
    "the lesson text": ("The lesson text shows a picture of it.", "课文里有一幅图。"),
    "the source": ("The source does it in schedule().", "源码在 schedule() 里做这件事。"),
    "exercise; fill in": ("My exercise plans the same way.", "我的练习也是这样规划的。"),
    "prediction": ("My prediction was right.", "我先猜的和结果一致，预测没错。"),
    "request": ("Each request has counters of its own.", "每个请求有自己的计数。"),
    "prompt": ("A prompt is known from the start.", "prompt 一开始就全部已知。"),
    "token": ("Each token has its own position.", "每个 token 都有自己的位置。"),
    "step": ("A step is one call of schedule() and one run of the model.", "一步就是一次 schedule() 加一次模型运行。"),
    "gap": ("The gap is what is known less what is computed.", "缺口就是已知的减去已算的。"),
    "token budget": ("The token budget starts anew in each step.", "token 预算每步重新开始。"),
    "prefill; decode": ("A prefill and a decode can share a step.", "prefill 和 decode 可以在同一步里。"),
    "chunked prefill": ("A chunked prefill takes several steps.", "chunked prefill 要分几步算完。"),
    "chunk": ("A chunk is the part of a prompt that fits into the step.", "chunk 是这一步放得下的那段 prompt。"),
    "draft token; drafter": ("The drafter proposes draft tokens.", "drafter 提出草稿 token。"),
    "verification": ("Verification runs the drafts through the model.", "投机验证让模型跑一遍草稿。"),
    "rejected": ("A rejected draft does not stay computed.", "被拒的草稿不会仍算作已算。"),
    "logits": ("The logits come out of a forward pass.", "logits 由一次前向得到。"),
    "queue": ("A request stands in one queue at a time.", "一个请求同时只在一个队列里。"),
    "admission; gate": ("Admission has more than one gate.", "准入有不止一道门槛。"),
    "full-sequence gate": (
        "The full-sequence gate looks at all known tokens and reserves nothing.",
        "全序列门槛看的是全部已知 token，什么都不预留。",
    ),
    "watermark": ("The watermark is off by default.", "水位线默认关闭。"),
    "preempt, preemption": ("The scheduler may preempt; preemption frees blocks.", "调度器可以抢占，抢占会放掉块。"),
    "victim": ("The victim under fcfs is the last one of running.", "fcfs 下牺牲者是 running 的最后一个。"),
    "resume": ("A preempted request may resume later.", "被抢占的请求之后可以恢复。"),
    "recompute": ("To recompute costs time.", "重算要花时间。"),
    "thrash": ("Requests that preempt each other again and again thrash.", "请求反复互相抢占就是颠簸。"),
    "sequence slot": ("A sequence slot is taken by every running request.", "每个运行中的请求占一个序列位。"),
    "KV cache": ("The KV cache is laid out when the engine starts.", "KV cache 在引擎启动时就分好。"),
    "KV cache group": ("A KV cache group has block tables of its own.", "每个 KV cache 组有自己的块表。"),
    "block": ("A block is full after 16 tokens.", "一个块放满 16 个 token 就满了。"),
    "block size; null block": (
        "The block size is fixed, and the null block is never handed out.",
        "块大小是固定的，null 块从不分出去。",
    ),
    "block pool": ("The block pool does not grow.", "块池不会变大。"),
    "block table": ("The block table maps positions to blocks.", "块表把位置映射到块。"),
    "slot (of a block)": (
        "A slot of a block holds one token's key and value.",
        "一个槽位放一个 token 的 key 和 value。",
    ),
    "lookahead slots": ("Lookahead slots take blocks and no budget.", "lookahead 位占块，不占预算。"),
    "free queue": ("The free queue hands out its first block.", "空闲队列先给出队首的块。"),
    "ref count": ("The ref count says how many requests hold a block.", "引用计数说明有几个请求持有这个块。"),
    "block hash; hash chain": (
        "A block hash covers all tokens before it: a hash chain.",
        "块哈希覆盖它之前的所有 token，这就是哈希链。",
    ),
    "prefix cache": ("The prefix cache finds full blocks only.", "前缀缓存只找得到满块。"),
    "prefix match": ("A prefix match ends at the first block that differs.", "前缀匹配到第一个不同的块为止。"),
    "hit": ("A hit saves compute.", "命中省下计算。"),
    "salt": ("A salt keeps tenants apart.", "salt 把租户隔开。"),
    "evict": ("To evict a block drops its hash.", "逐出一个块就去掉它的哈希。"),
    "full attention": ("Full attention reads every earlier position.", "全注意力要读前面每个位置。"),
    "sliding window": ("A sliding window lets old blocks go.", "滑动窗口会放掉旧块。"),
    "hybrid": ("A hybrid model has groups of both kinds.", "混合模型两种组都有。"),
    "owner": ("The owner of the blocks is the KVCacheManager.", "块归 KVCacheManager 所有，它是所有者。"),
    "throughput; goodput": ("Throughput and goodput have to be measured.", "吞吐和 goodput 要实测。"),
    "latency": ("Latency has to be measured.", "延迟要实测。"),
    "correctness invariant": (
        "A correctness invariant: the tokens of a step never exceed its budget.",
        "正确性不变量：一步的 token 之和不超过预算。",
    ),
    "performance boundary": (
        "A performance boundary: long steps raise the latency of decodes.",
        "性能边界：步越长，decode 的延迟越高。",
    ),
    "needs a benchmark": ("Which value is best needs a benchmark.", "取哪个值最好，需要 benchmark。"),
}


def test_every_row_of_the_glossary_has_a_true_sentence_in_its_words() -> None:
    assert TRUE.keys() == rows().keys()
    for name, (english, chinese) in TRUE.items():
        assert any(term.lower() in english.lower() for term in rows()[name][0]), english
        assert any(term in chinese for term in rows()[name][1]), chinese


@pytest.mark.parametrize("question", QUESTIONS)
def test_no_term_of_the_glossary_makes_a_true_sentence_lose_or_be_called_false(question: str) -> None:
    alone = judge(question, BASE[question])
    called_false = []
    for sentence in (one for pair in TRUE.values() for one in pair):
        found = judge(question, f"{BASE[question]} {sentence}")
        if found.points < alone.points or found.factual_error or found.veto:
            called_false.append((sentence, [fault["en"] for fault in found.faults]))
    assert called_false == []


def test_the_courses_word_in_place_of_a_word_that_it_avoids_costs_an_answer_nothing() -> None:
    avoided = {bad: row[1][0] for row in rows().values() for bad in row[2] if len(row[1]) == 1}
    swapped, worse = 0, []
    for answer in [one for path in (PUBLIC, SECOND, PARAPHRASES) for one in read_answers(path) if one.points >= 1]:
        text = answer.text
        for bad, good in avoided.items():
            text = text.replace(bad, good)
        if text != answer.text:
            swapped += 1
            if judge(answer.question, text).points < judge(answer.question, answer.text).points:
                worse.append(answer.id)
    assert swapped and worse == []


# --- what the graders say --------------------------------------------------------------------------------------------


def said() -> Iterator[tuple[str, str]]:
    """Sentences for students: what rubrics say is missing or wrong, and the texts of the graders' code."""
    folder = Path(judging.__file__ or "").parent
    for path in sorted(folder.rglob("*.yaml")):
        yield from ((path.name, one) for one in _says(yaml.safe_load(path.read_text(encoding="utf-8"))))
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
                yield path.name, node.value


def _says(data: object) -> Iterator[str]:
    if isinstance(data, dict):
        for key, value in data.items():
            yield from value.values() if key == "says" else _says(value)


def test_the_graders_own_sentences_use_no_word_that_the_glossary_avoids() -> None:
    english = [term for row in rows().values() for term in row[3]]
    chinese = [term for row in rows().values() for term in row[2]]
    pattern = re.compile("|".join([rf"\b{re.escape(t)}s?\b" for t in english] + [re.escape(t) for t in chinese]))
    readers = {
        "admission_gates.py",
        "listing.py",
        "cues.py",
        "normalise.py",
        "segments.py",
        "polarity.py",
        "honesty.py",
    }
    wrong = [(file, m[0], text) for file, text in said() if file not in readers and (m := pattern.search(text))]
    assert wrong == []
    assert admission_gates.named("令牌预算").about_tokens == "令牌预算", "what students write is quoted as written"
