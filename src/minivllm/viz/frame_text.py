"""One step in words and columns: what the drawing shows, for a terminal, a screen reader, a page without pictures."""

from __future__ import annotations

from collections.abc import Sequence

from minivllm.observe.frame import Frame
from minivllm.viz.frame_scene import clipped, printable

_MAX_REQUESTS = 60
_MAX_BLOCKS = 64
_COLUMNS = ("request", "status", "computed", "hit", "scheduled", "drafts", "remaining", "target", "preemptions")


def headline(frame: Frame, num_frames: int) -> str:
    """The step in one line."""
    return f"step {frame.index} of 0 to {num_frames - 1}: {', '.join(facts(frame))}"


def facts(frame: Frame) -> list[str]:
    """What there is to count in a step, the usual things first."""
    happened = (
        (len(frame.admitted), "admitted", "admitted"),
        (len(frame.preempted), "preempted", "preempted"),
        (len(frame.hits), "prefix hit", "prefix hits"),
        (len(frame.evicted), "eviction", "evictions"),
        (len(frame.finished), "finished", "finished"),
    )
    return [
        f"{frame.budget - frame.left} of {frame.budget} tokens handed out",
        f"{len(frame.running)} running",
        f"{len(frame.waiting)} waiting",
        "1 block free" if len(frame.free_queue) == 1 else f"{len(frame.free_queue)} blocks free",
        *(f"{number} {one if number == 1 else many}" for number, one, many in happened if number),
    ]


def frame_text(frame: Frame, num_frames: int) -> str:
    """The whole step; long lists are cut, and say by how much."""
    given = clipped([f"{request_id} {tokens}" for request_id, tokens in frame.handed_out], _MAX_REQUESTS)
    lines = [
        headline(frame, num_frames),
        *(f"  - {sentence}" for sentence in frame.why),
        f"token budget {frame.budget}: {', '.join(given) or 'nobody'}; {frame.left} left",
        f"running: {', '.join(clipped(frame.running, _MAX_REQUESTS)) or 'nobody'}",
        f"waiting, head first: {', '.join(clipped(frame.waiting, _MAX_REQUESTS)) or 'nobody'}",
        *_requests(frame),
        *_blocks(frame),
    ]
    return "\n".join(map(printable, lines))


def _requests(frame: Frame) -> list[str]:
    rows = [
        (r.request_id, r.status, r.computed, r.hit, r.scheduled, r.drafts, r.remaining, r.target, r.preemptions)
        for r in frame.requests[:_MAX_REQUESTS]
    ]
    return _aligned([_COLUMNS, *rows]) if rows else []


def _blocks(frame: Frame) -> list[str]:
    used = [
        f"{b.block_id} {'+'.join(b.owners)} ×{b.ref_count}" + ("" if b.hash_number is None else f" #{b.hash_number}")
        for b in frame.blocks
        if b.state == "used"
    ]
    lines = [
        f"blocks in use, with owner, ref count and hash: {'; '.join(clipped(used, _MAX_BLOCKS)) or 'none'}",
        f"free queue, next one first: {_queue(frame, frame.free_queue)}",
    ]
    if frame.free_queue_after != frame.free_queue:
        lines.append(f"free queue after the step: {_queue(frame, frame.free_queue_after)}")
    for request_id, tables in list(frame.block_tables.items())[:_MAX_REQUESTS]:
        groups = " | ".join(" ".join(clipped([str(i) for i in table], _MAX_BLOCKS)) for table in tables)
        lines.append(f"block table of {request_id}: {groups}")
    return lines


def _queue(frame: Frame, block_ids: Sequence[int]) -> str:
    hashes = {block.block_id: block.hash_number for block in frame.blocks}
    names = [f"{i}" if hashes[i] is None else f"{i} #{hashes[i]}" for i in block_ids]
    return ", ".join(clipped(names, _MAX_BLOCKS)) or "none"


def _aligned(rows: Sequence[Sequence[object]]) -> list[str]:
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  " + "  ".join(c.ljust(w) if i < 2 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True)))
        for row in cells
    ]
