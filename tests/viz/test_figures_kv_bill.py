"""Figure 2-1 and its sliders: the numbers are the configs', the lines are straight."""

import time
from typing import Any

import numpy as np
import pytest
from IPython import display as ipython_display

from minivllm.kv_bill import GIB, MODELS
from minivllm.viz.figures import kv_bill
from minivllm.viz.figures.kv_bill_sliders import KVBillSliders
from tests.viz.pictures import assert_every_text_lies_inside, xs

K = 1024


def lines(model: str, panel: int) -> list[tuple[Any, Any]]:
    axes = kv_bill(model).figure.axes[panel]
    return [line.get_data() for line in axes.lines if str(line.get_label()).endswith(("request", "requests"))]


@pytest.mark.parametrize("model", MODELS)
def test_lines_are_straight_through_zero_on_linear_axes_and_of_slope_1_on_logarithmic_ones(model: str) -> None:
    token = MODELS[model].kv_bytes_per_token()
    for panel in (0, 1):
        for requests, (contexts, heights) in zip((1, 4, 16, 64), lines(model, panel), strict=True):
            assert np.allclose(heights, np.asarray(contexts) * requests * token / GIB)
    for contexts, heights in lines(model, 1):
        assert np.allclose(np.diff(np.log(heights)) / np.diff(np.log(contexts)), 1)
    assert [kv_bill(model).figure.axes[panel].get_xscale() for panel in (0, 1)] == ["linear", "log"]


def test_the_room_beside_the_weights_is_drawn_and_told_in_tokens() -> None:
    picture = kv_bill("Llama-3-8B")
    for gpu, room, tokens in [
        ("24 GiB", "9.04", "74,075"),
        ("40 GiB", "25.04", "205,147"),
        ("80 GiB", "65.04", "532,827"),
        ("141 GB", "116.36", "953,212"),
    ]:
        assert f"{gpu} less 14.96 GiB of weights leave {room} GiB, {tokens} tokens." in picture.alt
        assert f"{room} left of {gpu}" in [text.get_text() for text in picture.figure.axes[0].texts]


def test_contexts_that_llama_3_does_not_take_are_labelled_llama_3_1() -> None:
    picture = kv_bill("Llama-3-8B")
    assert "It takes 8K tokens; longer contexts are Llama-3.1-8B's." in picture.alt
    for axes in picture.figure.axes:
        assert "beyond 8K: Llama-3.1-8B" in [text.get_text() for text in axes.texts]
    assert "beyond" not in kv_bill("Qwen2.5-7B").alt


def test_a_line_ends_where_the_model_does() -> None:
    assert max(lines("SmolLM2-135M", 0)[0][0]) == 8 * K
    assert max(lines("Llama-3.1-70B", 1)[0][0]) == 128 * K


def test_weights_that_fit_no_gpu_are_said_to() -> None:
    assert kv_bill("Llama-3.1-70B").alt.endswith("131.42 GiB of weights do not fit in 24 GiB, 40 GiB, 80 GiB, 141 GB.")


def test_a_smaller_dtype_of_the_cache_halves_the_tokens_cost_and_not_the_weights() -> None:
    assert "KV cache of Qwen2.5-7B in fp8: 28 KiB a token." in kv_bill("Qwen2.5-7B", dtype="fp8").alt
    assert "less 14.19 GiB of weights" in kv_bill("Qwen2.5-7B", dtype="fp8").alt


@pytest.mark.parametrize(("context", "where"), [(8 * K, "inside"), (128 * K, "above")])
def test_the_chosen_point_is_marked_or_pointed_to(context: int, where: str) -> None:
    picture = kv_bill(at=(context, 64))
    assert f"Marked: {context // K}K tokens x 64 = {context * 64 / 8 / K:.2f} GiB." in picture.alt
    (mark,) = [line for line in picture.figure.axes[0].lines if line.get_marker() in ("*", "^") and len(xs(line)) == 1]
    assert mark.get_marker() == {"inside": "*", "above": "^"}[where]


def test_lines_are_told_apart_without_colour() -> None:
    axes = kv_bill().figure.axes[0]
    looks = {(line.get_linestyle(), line.get_marker()) for line in axes.lines if "request" in str(line.get_label())}
    assert len(looks) == 4 and len({style for style, _ in looks}) == 4 and len({marker for _, marker in looks}) == 4


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("at", [None, (K, 1), (8 * K, 128)])
def test_no_text_is_cut_off(model: str, at: tuple[int, int] | None) -> None:
    assert_every_text_lies_inside(kv_bill(model, at=at))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"model": "GPT-5"}, "model is 'GPT-5', but must be one of 'Llama-3-8B'"),
        ({"dtype": "int3"}, "dtype is 'int3', but must be one of 'bfloat16'"),
        ({"concurrency": ()}, r"concurrency is \(\), but must hold one to 4 numbers from 1 on"),
        ({"concurrency": (1, 2, 3, 4, 5)}, "must hold one to 4 numbers"),
        ({"concurrency": (0, 2)}, "numbers from 1 on"),
    ],
)
def test_what_can_not_be_billed_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        kv_bill(**arguments)


def test_moving_a_slider_changes_the_sentence_and_the_chart() -> None:
    sliders = KVBillSliders()
    before = sliders.box.children[-1].value
    assert sliders.sentence == (
        "8K tokens x 16 x 128 KiB = 16.00 GiB of KV beside 14.96 GiB of weights: fits 40 GiB, 80 GiB, 141 GB."
    )
    sliders.requests.value = 64
    assert "= 64.00 GiB of KV" in sliders.sentence and sliders.sentence in sliders.box.children[-2].value
    assert "Marked: 8K tokens x 64 = 64.00 GiB." in sliders.box.children[-1].value != before
    sliders.dtype.value = "fp8"
    assert "x 64 KiB = 32.00 GiB of KV beside 14.96 GiB" in sliders.sentence
    sliders.model.value = "Llama-3.1-70B"
    assert sliders.sentence.endswith("fits none of 24 GiB, 40 GiB, 80 GiB, 141 GB.")


def test_a_context_that_the_model_does_not_take_is_not_billed() -> None:
    sliders = KVBillSliders("SmolLM2-135M")
    sliders.context.value = 128 * K
    assert sliders.sentence == "SmolLM2-135M takes 8K tokens at most: choose a shorter context."
    assert "Marked" not in sliders.picture.alt


def test_the_sliders_stand_beside_a_still_of_their_choices(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[dict[str, Any]] = []
    monkeypatch.setattr(ipython_display, "display", lambda bundle, raw: shown.append(bundle))
    sliders = KVBillSliders()
    sliders._ipython_display_()
    widget, still = shown
    assert widget["application/vnd.jupyter.widget-view+json"]["model_id"] == sliders.box.model_id
    assert sliders.sentence in still["text/html"] and '<img alt="KV cache of Llama-3-8B' in still["text/html"]
    assert still["text/plain"] == repr(sliders) and sliders.sentence in repr(sliders)


def test_a_redraw_is_quick_enough_to_follow_a_hand() -> None:
    sliders, times = KVBillSliders(), []
    for requests in (1, 2, 4, 8, 32):
        start = time.process_time()
        sliders.requests.value = requests
        times.append(time.process_time() - start)
    assert min(times) < 0.5
