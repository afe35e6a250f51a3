"""One step as a drawing, right half: every block with its owner, ref count and hash, and the free queue in order."""

from __future__ import annotations

import html

from minivllm.observe.frame import BlockFrame, Frame
from minivllm.viz.frame_scene import MAX_BLOCKS, Scene

WIDTH = 480
_CELL = 36  # height
_QUEUE_COLUMNS, _QUEUE_ROWS = 16, 2


def blocks_svg(frame: Frame, scene: Scene, prefix: str) -> tuple[str, int]:
    """The drawing's elements and its height."""
    blocks = _worth_drawing(frame)
    columns = _columns(len(blocks))
    width = WIDTH // columns
    taken = {block_id for name, *rest in frame.events if name == "new" for block_id in rest[0]}
    touched = {block_id for name, *rest in frame.events if name == "touch" for block_id in rest[0]}
    lost = {block_id for block_id, _ in frame.evicted}
    used, usable = frame.num_used_blocks, scene.num_blocks - 1
    groups = ", owner and KV cache group" if scene.num_groups > 1 else ""
    parts = [
        f'<text class="b" x="1" y="12">blocks of {scene.block_size} tokens{groups}</text>'
        f'<text class="m n e" x="{WIDTH - 1}" y="12">{used} of {usable} in use, {len(frame.free_queue)} free</text>'
    ]
    for place, block in enumerate(blocks):
        x, y = place % columns * width, 20 + place // columns * _CELL
        marks = (block.block_id in taken, block.block_id in touched, block.block_id in lost)
        parts.append(_cell(block, x + 1, y, width - 2, scene, prefix, marks))
    y = 20 + -(-len(blocks) // columns) * _CELL
    if len(blocks) < scene.num_blocks:
        y += 16
        parts.append(f'<text class="m n" x="1" y="{y - 3}">… {scene.num_blocks - len(blocks)} more blocks</text>')
    parts.append(_legend(y + 6))
    y = _queue(parts, y + 66, frame, scene)
    return "".join(parts), y


def _worth_drawing(frame: Frame) -> list[BlockFrame]:
    """All blocks; of a large pool those in use, then those with a hash, then the next free ones."""
    if len(frame.blocks) <= MAX_BLOCKS:
        return list(frame.blocks)
    used = [block.block_id for block in frame.blocks if block.state == "used"]
    by_interest = sorted(frame.free_queue, key=lambda block_id: frame.blocks[block_id].state != "cached")
    chosen = sorted([*used, *by_interest][:MAX_BLOCKS])
    return [frame.blocks[block_id] for block_id in chosen]


def _columns(num_blocks: int) -> int:
    return 8 if num_blocks <= 40 else 12 if num_blocks <= 120 else 14


def _cell(
    block: BlockFrame, x: int, y: int, width: int, scene: Scene, prefix: str, marks: tuple[bool, bool, bool]
) -> str:
    taken, touched, lost = marks
    height, middle, state = _CELL - 3, x + width / 2, block.state
    box = f'x="{x}" y="{y}" width="{width}" height="{height}" rx="2"'
    hash_label = (
        "" if block.hash_number is None else f'<text class="i s" x="{middle}" y="{y + 30}">#{block.hash_number}</text>'
    )
    # One text for both: text is what takes a browser its time.
    refs = f" ×{block.ref_count}" if state == "used" else ""
    number = f'<text class="s" x="{x + 2}" y="{y + 9}">{block.block_id}{refs}</text>'
    if state == "null":
        name = f'<text class="i n m h" x="{middle}" y="{y + 22}">null</text>'
        return f'<rect fill="url(#{prefix}-n)" class="r" {box}/>{number}{name}'
    if state != "used":
        return f'<rect class="{"q" if state == "cached" else "f"}" {box}/>{number}{hash_label}'
    owner = block.owners[0]
    index = f'<tspan class="s" dy="2">{block.group}</tspan>' if scene.num_groups > 1 else ""
    parts = [f'<rect class="o{scene.tones.get(owner, 0)}{" w" if taken else ""}" {box}/>{number}']
    if block.ref_count > 1:
        parts.append(f'<rect class="d" x="{x + 2.5}" y="{y + 2.5}" width="{width - 5}" height="{height - 5}" rx="1"/>')
    if touched:
        parts.append(f'<path class="k" d="M{x + width} {y + height}h-8l8 -8z"/>')
    if lost:
        parts.append(f'<path class="k" d="M{x} {y + height}h8l-8 -8z"/>')
    parts.append(
        f'<text class="i b n" x="{middle}" y="{y + 21}">{html.escape(scene.tags.get(owner, owner))}{index}</text>'
    )
    parts.append(hash_label)
    return "".join(parts)


def _legend(y: int) -> str:
    shared = '<rect class="d" x="3.5" y="3.5" width="11" height="6"/>'
    hit, lost = '<path class="k" d="M17 12h-8l8 -8z"/>', '<path class="k" d="M1 12h8l-8 -8z"/>'
    entries = (
        ("x", "", "id ×refs, owner, #hash"),
        ("x", shared, "shared"),
        ("q", "", "free, hash kept"),
        ("f", "", "free, no hash"),
        ("x w", "", "taken in this step"),
        ("x", hit, "hit in this step"),
        ("x", lost, "old hash evicted"),
    )
    parts, x = [], 0
    for number, (kind, mark, label) in enumerate(entries):
        if number == 4:
            x, y = 0, y + 18
        swatch = f'<rect class="{kind}" x="1" y="1" width="16" height="11" rx="2"/>{mark}'
        parts.append(f'<g transform="translate({x} {y})">{swatch}<text class="m n" x="22" y="10">{label}</text></g>')
        x += 22 + round(len(label) * 5.3) + 12
    return "".join(parts)


def _queue(parts: list[str], y: int, frame: Frame, scene: Scene) -> int:
    width = WIDTH // _QUEUE_COLUMNS
    parts.append(f'<text class="b" x="1" y="{y}">free queue: {len(frame.free_queue)}</text>')
    parts.append(f'<text class="m n e" x="{WIDTH - 1}" y="{y}">next one first, # a hash that is kept</text>')
    room = _QUEUE_COLUMNS * min(_QUEUE_ROWS, max(-(-scene.num_free // _QUEUE_COLUMNS), 1))
    more = len(frame.free_queue) - room
    ids = frame.free_queue if more <= 0 else frame.free_queue[: room - 1]
    for place, block_id in enumerate(ids):
        x, top = place % _QUEUE_COLUMNS * width + 1, y + 8 + place // _QUEUE_COLUMNS * 26
        number = frame.blocks[block_id].hash_number
        kind, label = ("f", "") if number is None else ("q", f"#{number}")
        parts.append(f'<rect class="{kind}" x="{x}" y="{top}" width="{width - 2}" height="23" rx="2"/>')
        parts.append(f'<text class="i n" x="{x + width / 2 - 1}" y="{top + 11}">{block_id}</text>')
        if label:
            parts.append(f'<text class="i s m" x="{x + width / 2 - 1}" y="{top + 20}">{label}</text>')
    if more > 0:
        x, top = (room - 1) % _QUEUE_COLUMNS * width, y + 8 + (room - 1) // _QUEUE_COLUMNS * 26
        parts.append(f'<text class="n m" x="{x + 1}" y="{top + 15}">+{more + 1}</text>')
    y += 8 + room // _QUEUE_COLUMNS * 26
    if not scene.frees_later:
        return y + 2
    if frame.free_queue_after != frame.free_queue:
        after = " ".join(map(str, frame.free_queue_after[:18])) + (" …" if len(frame.free_queue_after) > 18 else "")
        parts.append(f'<text class="n" x="1" y="{y + 12}">after the step: {after}</text>')
    return y + 18
