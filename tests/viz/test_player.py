"""The player without a browser: what it draws, says, jumps to, and what it does with names it did not expect."""

import re
import time
import xml.etree.ElementTree as ElementTree
from typing import Any

import nbformat
import pytest
from nbconvert import HTMLExporter

from minivllm.kv_cache_interface import FullAttentionSpec, SlidingWindowSpec
from minivllm.lesson import Arrival, Load, play, record
from minivllm.observe.frame import Frame
from minivllm.observe.recording import Recording
from minivllm.viz.display import WIDGET_VIEW
from minivllm.viz.frame_html import still_svg
from minivllm.viz.frame_scene import MAX_BLOCKS, MAX_TAG, Scene, short_names
from minivllm.viz.frame_style import _OKABE_ITO, DARK, LIGHT, Palette
from minivllm.viz.frame_text import frame_text
from minivllm.viz.player import JUMPS, next_step, worth_a_look
from tests.core.engine import add, make_request, make_scheduler, run, step

CROWDED = Load(
    [
        Arrival("A", 20, shared=12, max_tokens=6, drafts=2, accepted=1),
        Arrival("B", 30, step=1, shared=12, drafts=2, accepted=2, max_tokens=12),
        Arrival("C", 25, step=2, max_tokens=20),
        Arrival("D", 40, step=3),
    ],
    blocks=18,
    budget=16,
)
LARGE = Load(
    [
        Arrival(f"r{i}", 60 + i % 17, step=i // 4, max_tokens=90, shared=32 * (i % 3 == 0), drafts=2, accepted=i % 3)
        for i in range(60)
    ],
    blocks=256,
    block_size=16,
    budget=256,
    max_num_seqs=40,
)


@pytest.fixture(scope="module")
def crowded() -> Recording:
    return record(CROWDED)


def recorded(*request_ids: str, steps: int = 1) -> Recording:
    """A few steps of requests with these names."""
    scheduler = make_scheduler(blocks=1024, max_num_seqs=4, budget=8)
    recording = Recording(scheduler)
    add(scheduler, *(make_request(request_id, 6) for request_id in request_ids))
    for _ in range(steps):
        step(scheduler)
    return recording


def words(markup: str) -> list[str]:
    """The texts of all elements."""
    return re.findall(r">([^<>]+)<", markup)


# ---- the drawing


def test_every_block_shows_its_id_ref_count_owner_and_hash(crowded: Recording) -> None:
    player = play(crowded)
    for step_, frame in enumerate(crowded.frames):
        shown = words(player.render(step_))
        for block in frame.blocks:
            if block.state == "used":
                assert f"{block.block_id} ×{block.ref_count}" in shown
                assert block.owners[0] in shown
            if block.hash_number is not None:
                assert f"#{block.hash_number}" in shown


def test_every_request_shows_its_tokens(crowded: Recording) -> None:
    player = play(crowded)
    for step_, frame in enumerate(crowded.frames):
        shown = " ".join(words(player.render(step_)))
        for request in frame.requests:
            took = f" + {request.scheduled}" if request.scheduled or request.drafts else ""
            drafts = f" + {request.drafts}d" if request.drafts else ""
            assert f"{request.computed}{took}{drafts} of {request.target}" in shown
        for sentence in frame.why:
            assert sentence in shown


def test_the_free_queue_is_drawn_in_its_order(crowded: Recording) -> None:
    frame = crowded.frames[7]
    drawn = play(crowded).render(7).split("free queue: ")[1]
    ids = [int(word) for word in words(drawn) if word.isdecimal()]
    assert tuple(ids) == frame.free_queue


def test_the_size_of_the_drawing_is_the_same_in_every_step(crowded: Recording) -> None:
    player = play(crowded)
    sizes = {
        tuple(re.findall(r'viewBox="([^"]+)"|style="height:(\d+)', player.render(i))) for i in range(len(player.frames))
    }
    assert len(sizes) == 1


def test_the_hatches_of_two_players_do_not_share_an_id(crowded: Recording) -> None:
    first, second = (set(re.findall(r'id="([^"]+)"', play(crowded).render(0))) for _ in range(2))
    assert first and second and not first & second


@pytest.mark.parametrize("step_", [0, 6, 30])
def test_a_still_is_a_whole_svg_file(crowded: Recording, step_: int) -> None:
    root = ElementTree.fromstring(still_svg(crowded.frames[step_], Scene.of(crowded)))
    used = set(re.findall(r"url\(#([^)]+)\)", ElementTree.tostring(root, encoding="unicode")))
    assert used <= {element.get("id") for element in root.iter()}


def test_states_are_told_without_colour(crowded: Recording) -> None:
    drawn = "".join(play(crowded).render(i) for i in range(len(crowded.frames)))
    for kind in "shd":  # scheduled, hit, drafts: three hatches
        assert re.search(rf'url\(#mv\d+-{kind}\)" class="r" x="[\d.]+" y="\d+" width="[\d.]+" height="12"', drawn)
    paths = re.findall(r'<path class="hl" d="([^"]+)"', play(crowded).render(0))
    assert len(set(paths[:3])) == 3
    assert 'stroke-dasharray="3 2"' in drawn, "a waiting request has an outline of its own"


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def tinted(colour: str, palette: Palette) -> str:
    mixed = (
        round(int(colour[i : i + 2], 16) * palette.tint + int(palette.page[i : i + 2], 16) * (1 - palette.tint))
        for i in (1, 3, 5)
    )
    return "#" + "".join(f"{part:02x}" for part in mixed)


@pytest.mark.parametrize("palette", [LIGHT, DARK])
def test_text_and_outlines_have_the_contrast_that_wcag_asks_for(palette: Palette) -> None:
    for text in (palette.ink, palette.muted):
        assert contrast(text, palette.page) >= 4.5
    for owner in _OKABE_ITO:
        assert contrast(palette.ink, tinted(owner, palette)) >= 4.5, owner
    for outline in (palette.line, palette.faint, palette.accent):
        assert contrast(outline, palette.page) >= 3


# ---- names


def test_what_a_request_is_called_is_data_not_markup() -> None:
    evil = "<script>alert(1)</script>"
    player = play(recorded(evil, '"><img src=x onerror=alert(2)>', "a&b"))
    pages = [player.render(0), player.render(0, as_text=True), player.stills()]
    for page in pages:
        assert "<script" not in page and "<img src=x" not in page
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    ElementTree.fromstring(still_svg(player.frames[0], player.scene))
    assert evil in repr(player)


def test_control_characters_and_half_characters_in_a_name_break_nothing() -> None:
    player = play(recorded("a\x00b", "line\nbreak", "\ud800", "\u202eright-to-left"))
    ElementTree.fromstring(still_svg(player.frames[0], player.scene))
    for page in (player.render(0), player.stills(), repr(player)):
        page.encode("utf-8")
        assert "\x00" not in page and "\u202e" not in page and "line\nbreak" not in page


def test_a_name_of_200_characters_is_short_in_the_drawing_and_whole_in_the_words() -> None:
    name = "request-" + "x" * 191 + "7"
    player = play(recorded(name, "B"))
    drawing = player.render(0).split('class="mv-panels"')[1]
    assert "…xx7" in words(drawing) and f"<title>{name}</title>" in drawing
    assert max(len(word) for word in words(drawing) if word != name) < 60
    assert name in repr(player)


def test_short_names_differ_and_fit() -> None:
    ids = [
        "A",
        "0",
        "my-request-99x",
        "request-012",
        "other-012",
        "…012",
        "~3",
        "A" * 200,
        *(f"chat-{i}" for i in range(1000)),
    ]
    names = short_names(ids)
    assert names["A"] == "A" and names["my-request-99x"] == "…99x"
    assert len(set(names.values())) == len(ids) and max(map(len, names.values())) <= MAX_TAG + 1


# ---- the text twin


def test_the_text_says_what_the_frame_says(crowded: Recording) -> None:
    for frame in crowded.frames:
        text = frame_text(frame, len(crowded.frames))
        lines = text.splitlines()
        assert all(f"  - {sentence}" in lines for sentence in frame.why)
        given = ", ".join(f"{request_id} {tokens}" for request_id, tokens in frame.handed_out)
        assert f"token budget {frame.budget}: {given}; {frame.left} left" in lines
        assert f"running: {', '.join(frame.running)}" in lines
        for r in frame.requests:
            row = [
                r.request_id,
                r.status,
                r.computed,
                r.hit,
                r.scheduled,
                r.drafts,
                r.remaining,
                r.target,
                r.preemptions,
            ]
            assert [str(cell) for cell in row] in [line.split() for line in lines]
        queue = next(line for line in lines if line.startswith("free queue, next one first: "))
        assert [int(i) for i in re.findall(r"(?:: |, )(\d+)", queue)] == list(frame.free_queue)
        for request_id, (table,) in frame.block_tables.items():
            assert f"block table of {request_id}: {' '.join(map(str, table))}" in lines
        for block in frame.blocks:
            if block.state == "used":
                hashed = "" if block.hash_number is None else f" #{block.hash_number}"
                assert f"{block.block_id} {'+'.join(block.owners)} ×{block.ref_count}{hashed}" in text


# ---- steps


def test_a_jump_goes_to_the_next_such_step_and_behind_the_last_to_the_first(crowded: Recording) -> None:
    frames = crowded.frames
    for kind, happened in JUMPS.items():
        steps = [i for i, frame in enumerate(frames) if happened(frame)]
        assert len(steps) > 1
        seen, at = [], -1
        for _ in steps:
            at = next_step(frames, at, kind) or 0
            seen.append(at)
        assert seen == steps and next_step(frames, at, kind) == steps[0]


def test_a_jump_without_such_a_step_leads_nowhere() -> None:
    assert next_step(recorded("A").frames, 0, "preemption") is None


def test_stills_are_the_first_the_last_and_each_kind_of_event() -> None:
    frames = record(LARGE).frames
    steps = worth_a_look(frames)
    assert steps[0] == 0 and steps[-1] == len(frames) - 1 and len(steps) == 8 and steps == sorted(set(steps))
    assert all(any(happened(frames[i]) for i in steps) for happened in JUMPS.values())
    assert worth_a_look([]) == []


# ---- the widget and what stands in for it


def children(widget: Any) -> list[Any]:
    return [widget, *(below for child in getattr(widget, "children", ()) for below in children(child))]


def control(widget: Any, description: str) -> Any:
    return next(w for w in children(widget) if str(getattr(w, "description", "")).startswith(description))


def test_the_controls_move_the_step(crowded: Recording) -> None:
    player = play(crowded)
    widget = player.widget()
    stage, slider = children(widget)[-1], control(widget, "step")
    assert stage.value == player.render(0) and slider.max == len(crowded.frames) - 1
    slider.value = 3
    assert stage.value == player.render(3)
    control(widget, "next").click()
    control(widget, "previous").click()
    control(widget, "previous").click()
    assert slider.value == 2
    control(widget, "next preemption").click()
    assert slider.value == next_step(crowded.frames, 2, "preemption") and stage.value == player.render(slider.value)
    control(widget, "as text").value = True
    assert stage.value == player.render(slider.value, as_text=True)
    slider.value = slider.max
    control(widget, "next").click()
    assert slider.value == slider.max


def test_a_jump_that_leads_nowhere_is_disabled() -> None:
    widget = play(recorded("A", steps=3)).widget()
    assert control(widget, "next preemption (0)").disabled and not control(widget, "previous").disabled


def displayed(player: Any, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    bundles: list[dict[str, Any]] = []
    monkeypatch.setattr("IPython.display.display", lambda bundle, raw: bundles.append(bundle))
    player._ipython_display_()
    return bundles


def test_a_page_without_widgets_has_stills_and_a_terminal_the_text(
    crowded: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    player = play(crowded)
    live, still = displayed(player, monkeypatch)
    assert live[WIDGET_VIEW]["model_id"] and "run this cell" in live["text/html"]
    assert WIDGET_VIEW not in still and still["text/plain"] == repr(player)
    assert still["text/html"].count("<img alt=") == len(worth_a_look(crowded.frames))
    assert "<style" not in still["text/html"] and "<script" not in still["text/html"]
    assert "C preempts itself" in still["text/html"] and "C preempts itself" in still["text/plain"]


@pytest.mark.parametrize("widget_state_is_saved", [True, False])
def test_exported_html_has_the_stills_with_and_without_saved_widgets(
    crowded: Recording, monkeypatch: pytest.MonkeyPatch, widget_state_is_saved: bool
) -> None:
    bundles = displayed(play(crowded), monkeypatch)
    outputs = [nbformat.v4.new_output("display_data", bundle) for bundle in bundles]  # type: ignore[no-untyped-call]
    cell = nbformat.v4.new_code_cell("play(recording)", outputs=outputs)  # type: ignore[no-untyped-call]
    state = {"state": {bundles[0][WIDGET_VIEW]["model_id"]: {}}, "version_major": 2, "version_minor": 0}
    metadata = {"widgets": {"application/vnd.jupyter.widget-state+json": state}} if widget_state_is_saved else {}
    notebook = nbformat.v4.new_notebook(cells=[cell], metadata=metadata)  # type: ignore[no-untyped-call]
    page, _ = HTMLExporter().from_notebook_node(notebook)  # type: ignore[no-untyped-call]
    assert page.count("<summary>Stills: 8 of 31 steps") == 1
    assert page.count("data:image/svg+xml;base64,") >= 8
    assert ("run this cell in a notebook" in page) is not widget_state_is_saved


def test_an_empty_recording_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    player = play(Recording(make_scheduler()))
    assert repr(player).startswith("Nothing was recorded")
    assert [bundle["text/html"][:22] for bundle in displayed(player, monkeypatch)] == ["<p>Nothing was recorde"]


def test_a_recording_of_one_step_needs_no_slider() -> None:
    widget = play(recorded("A")).widget()
    assert not any(type(w).__name__ in ("IntSlider", "Play") for w in children(widget))
    assert "<b>step 0</b>" in children(widget)[-1].value
    control(widget, "as text").value = True
    assert "<pre" in children(widget)[-1].value


def test_a_player_keeps_what_was_recorded_when_it_was_made() -> None:
    scheduler = make_scheduler()
    recording = Recording(scheduler)
    add(scheduler, make_request("A", 8))
    step(scheduler)
    player = play(recording)
    run(scheduler)
    assert len(player.frames) == 1 < len(recording.frames)


# ---- size


def test_a_thousand_requests_and_a_large_pool_are_cut_and_counted() -> None:
    player = play(recorded(*(f"request-{i}" for i in range(1000)), steps=3))
    drawing = player.render(2)
    assert "… 961 more waiting" in words(drawing) or "… 960 more waiting" in words(drawing)
    assert f"… {1025 - MAX_BLOCKS} more blocks" in words(drawing)
    assert len({re.findall(r'viewBox="[^"]+"', player.render(i))[1] for i in range(3)}) == 1
    assert len(drawing) < 150_000 and len(repr(player)) < 100_000


def test_a_step_of_forty_requests_and_256_blocks_is_rendered_in_milliseconds() -> None:
    recording = record(LARGE)
    player = play(recording)
    busiest = max(range(100), key=lambda i: len(recording.frames[i].requests))
    start = time.process_time()
    for i in range(100):
        player.render(i)
    assert (time.process_time() - start) / 100 < 0.020
    frame: Frame = recording.frames[busiest]
    assert len(frame.requests) >= 40 and len(player.render(busiest)) < 120_000


def test_a_hybrid_pool_shows_the_group_of_each_block() -> None:
    scheduler = make_scheduler(blocks=24, groups=(FullAttentionSpec(), SlidingWindowSpec(8)))
    recording = Recording(scheduler)
    add(scheduler, make_request("A", 20, 6))
    run(scheduler)
    drawing = play(recording).render(1)
    assert ">A<tspan" in drawing and "blocks of 4 tokens, owner and KV cache group" in drawing
    assert "block table of A: " in frame_text(recording.frames[1], 6) and " | " in frame_text(recording.frames[1], 6)
