"""One step as a drawing, left half: the token budget as it was handed out, and every request's way to its target."""

from __future__ import annotations

import html

from minivllm.observe.frame import Frame, RequestFrame
from minivllm.viz.frame_scene import MAX_TAG, Scene, printable, shown

WIDTH = 480
_ROW, _HEAD = 18, 24
_BAR_X, _BAR_WIDTH, _NUMBERS_X = 48, 234, 288
_LEGEND = (("c", "computed"), ("h", "prefix hit"), ("s", "scheduled"), ("d", "drafts"), ("f", "remaining"))


def requests_svg(frame: Frame, scene: Scene, prefix: str) -> tuple[str, int]:
    """The drawing's elements and its height; ``prefix`` names the hatches."""
    parts = [_budget(frame, scene)]
    num_running, num_waiting = shown(frame)
    running = [request for request in frame.requests if request.status == "running"]
    waiting = frame.requests[len(running) :]
    y = 62
    parts.append(
        _heading(
            y, f"running: {len(running)} of at most {scene.max_num_seqs}", "computed + scheduled + drafts (d) of target"
        )
    )
    y = _rows(parts, running[:num_running], y + 8, frame, scene, prefix)
    y = _more(parts, y, len(running) - num_running, "running")
    y += _HEAD
    parts.append(
        _heading(y, f"waiting: {len(waiting)}" + (", head first" if len(waiting) > 1 else ""), "↺n: preempted n times")
    )
    y = _rows(parts, waiting[:num_waiting], y + 8, frame, scene, prefix)
    y = _more(parts, y, len(waiting) - num_waiting, "waiting")
    height = 62 + 8 + _HEAD + 8 + scene.num_rows * _ROW + 30
    parts.append(_legend(height - 18, prefix))
    return "".join(parts), height


def _budget(frame: Frame, scene: Scene) -> str:
    parts = [_heading(12, f"token budget {frame.budget}", f"{frame.budget - frame.left} handed out, {frame.left} left")]
    scale = (WIDTH - 2) / frame.budget
    x = 1.0
    for request_id, tokens in frame.handed_out:
        width = tokens * scale
        parts.append(f'<rect class="o{scene.tones[request_id]}" x="{x:.1f}" y="20" width="{width:.1f}" height="22"/>')
        for label in (f"{scene.tag(request_id)}: {tokens}", scene.tag(request_id)):
            if len(label) * 6.2 + 4 < width:
                parts.append(f'<text class="i" x="{x + width / 2:.1f}" y="35">{html.escape(label)}</text>')
                break
        x += width
    if frame.left > 0:
        parts.append(f'<rect class="q" x="{x:.1f}" y="20" width="{frame.left * scale:.1f}" height="22"/>')
    return "".join(parts)


def _rows(
    parts: list[str],
    requests: tuple[RequestFrame, ...] | list[RequestFrame],
    y: int,
    frame: Frame,
    scene: Scene,
    prefix: str,
) -> int:
    for request in requests:
        parts.append(_row(request, y, frame, scene, prefix))
        y += _ROW
    return y


def _row(request: RequestFrame, y: int, frame: Frame, scene: Scene, prefix: str) -> str:
    name, tag = html.escape(printable(request.request_id)), html.escape(scene.tag(request.request_id))
    title = f"<title>{name}</title>" if len(request.request_id) > MAX_TAG else ""
    outline = "" if request.status == "running" else ' stroke-dasharray="3 2"'
    tone = f"o{scene.tones[request.request_id]}"
    parts = [
        f'<g>{title}<rect class="{tone}" x="1" y="{y}" width="40" height="14" rx="3"{outline}/>'
        f'<text class="i b n" x="21" y="{y + 11}">{tag}</text>'
    ]
    scale = _BAR_WIDTH / scene.longest
    x = float(_BAR_X)
    for kind, tokens in (
        ("c", request.computed - request.hit),
        ("h", request.hit),
        ("s", request.scheduled),
        ("d", request.drafts),
        ("f", request.remaining),
    ):
        if tokens > 0:
            parts.append(
                f'<rect {_fill(kind, prefix)} x="{x:.1f}" y="{y + 1}" width="{tokens * scale:.1f}" height="12"/>'
            )
            x += tokens * scale
    parts.append(f'<text class="n" x="{_NUMBERS_X}" y="{y + 11}">{_numbers(request, frame)}</text></g>')
    return "".join(parts)


def _numbers(request: RequestFrame, frame: Frame) -> str:
    took = f" + {request.scheduled}" if request.scheduled or request.drafts else ""
    drafts = f" + {request.drafts}d" if request.drafts else ""
    note = ""
    if request.lost:
        note = f" · lost {request.lost}"
    elif request.request_id in frame.finished:
        note = " · ends"
    elif request.hit:
        note = f" · hit {request.hit}"
    elif request.request_id in frame.rejected:
        note = f" · {frame.rejected[request.request_id]} rejected"
    again = f" ↺{request.preemptions}" if request.preemptions else ""
    return f"{request.computed}{took}{drafts} of {request.target}{note}{again}"


def _fill(kind: str, prefix: str) -> str:
    """Plain, hatched or empty: the states differ without colour too."""
    return f'class="{kind}"' if kind in "cf" else f'fill="url(#{prefix}-{kind})" class="r"'


def _heading(y: int, left: str, right: str) -> str:
    return f'<text class="b" x="1" y="{y}">{left}</text><text class="m n e" x="{WIDTH - 1}" y="{y}">{right}</text>'


def _more(parts: list[str], y: int, number: int, what: str) -> int:
    if number <= 0:
        return y
    parts.append(f'<text class="m" x="1" y="{y + 11}">… {number} more {what}</text>')
    return y + _ROW


def _legend(y: int, prefix: str) -> str:
    parts, x = [], 1
    for kind, label in _LEGEND:
        parts.append(f'<rect {_fill(kind, prefix)} x="{x}" y="{y}" width="18" height="12"/>')
        parts.append(f'<text class="m n" x="{x + 23}" y="{y + 10}">{label}</text>')
        x += 23 + len(label) * 6 + 14
    return "".join(parts)
