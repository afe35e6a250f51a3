"""One step as a piece of a page: live under the player's slider, or as a still with the same words beside it."""

from __future__ import annotations

import base64
import html

from minivllm.observe.frame import Frame
from minivllm.viz import frame_blocks, frame_requests
from minivllm.viz.frame_scene import Scene, printable
from minivllm.viz.frame_style import LIGHT, hatches, svg_css
from minivllm.viz.frame_text import facts, frame_text, headline

_GAP = 28  # between the two halves of a still
_MAX_LINES = 6  # sentences before the list scrolls


def stage_html(frame: Frame, scene: Scene, prefix: str) -> str:
    """The step on a page that has the player's style sheet; its size is the same in every step."""
    lines = min(max(scene.num_lines, 1), _MAX_LINES)
    left, left_height = frame_requests.requests_svg(frame, scene, prefix)
    right, right_height = frame_blocks.blocks_svg(frame, scene, prefix)
    return (
        f'<div class="mv">{_head(frame, scene)}'
        f'<div class="mv-why" role="status" tabindex="0" aria-label="what happened" style="height:{20 * lines + 14}px">'
        f"{_sentences(frame)}</div>"
        '<div class="mv-panels">'
        f"{_svg(hatches(prefix) + left, frame_requests.WIDTH, left_height, requests_alt(frame))}"
        f"{_svg(right, frame_blocks.WIDTH, right_height, blocks_alt(frame))}"
        "</div></div>"
    )


def text_html(frame: Frame, scene: Scene) -> str:
    """The step in words, in place of the drawing."""
    return f'<div class="mv"><pre tabindex="0">{html.escape(frame_text(frame, len(scene.frames)))}</pre></div>'


def still_html(frame: Frame, scene: Scene, is_open: bool) -> str:
    """The step as a picture, sentences and text that need no style sheet and no kernel."""
    alt = html.escape(f"{headline(frame, len(scene.frames))}. {requests_alt(frame)} {blocks_alt(frame)}")
    data = base64.b64encode(still_svg(frame, scene).encode()).decode("ascii")
    return (
        f"<details{' open' if is_open else ''}><summary>{html.escape(headline(frame, len(scene.frames)))}</summary>"
        f"{_sentences(frame)}"
        f'<img alt="{alt}" src="data:image/svg+xml;base64,{data}" width="988" style="max-width:100%;height:auto">'
        f"<details><summary>The same as text</summary><pre>{html.escape(frame_text(frame, len(scene.frames)))}</pre>"
        "</details></details>"
    )


def still_svg(frame: Frame, scene: Scene) -> str:
    """Both halves of the step in one file on a white page."""
    left, left_height = frame_requests.requests_svg(frame, scene, "p")
    right, right_height = frame_blocks.blocks_svg(frame, scene, "p")
    width, height = frame_requests.WIDTH + _GAP + frame_blocks.WIDTH + 16, max(left_height, right_height) + 16
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
        f"<style>{svg_css('svg', LIGHT)}</style>{hatches('p')}"
        f'<rect width="{width}" height="{height}" fill="{LIGHT.page}"/>'
        f'<g transform="translate(8 8)">{left}</g>'
        f'<g transform="translate({8 + frame_requests.WIDTH + _GAP} 8)">{right}</g></svg>'
    )


def requests_alt(frame: Frame) -> str:
    given = ", ".join(f"{request_id} {tokens}" for request_id, tokens in frame.handed_out[:40]) or "nobody"
    return printable(f"Token budget {frame.budget}: {given}; {frame.left} left.")


def blocks_alt(frame: Frame) -> str:
    shared = sum(block.ref_count > 1 for block in frame.blocks if block.state == "used")
    queue = " ".join(map(str, frame.free_queue[:16])) + (" …" if len(frame.free_queue) > 16 else "")
    cached = sum(block.state == "cached" for block in frame.blocks)
    return (
        f"Blocks: {frame.num_used_blocks} in use, {shared} of them shared, {len(frame.free_queue)} free, {cached} of "
        f"them with a hash. Free queue: {queue or 'empty'}."
    )


def _head(frame: Frame, scene: Scene) -> str:
    return (
        f'<div class="mv-head"><b>step {frame.index}</b><span class="mv-muted">of 0 to {len(scene.frames) - 1}</span>'
        + "".join(f"<span>{fact}</span>" for fact in facts(frame))
        + "</div>"
    )


def _sentences(frame: Frame) -> str:
    return f"<ul>{''.join(f'<li>{html.escape(printable(sentence))}</li>' for sentence in frame.why)}</ul>"


def _svg(elements: str, width: int, height: int, alt: str) -> str:
    return f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{html.escape(alt)}">{elements}</svg>'
