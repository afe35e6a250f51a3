"""However few the rows, and whoever multiplies: the product is x @ weight.T."""

from collections.abc import Iterator

import pytest
import torch

from minivllm.kernels.linear import FEW_ROWS, PIECES, STEP_OF_DECODES, linear

ROWS = [0, 1, 2, FEW_ROWS, FEW_ROWS + 1, STEP_OF_DECODES, STEP_OF_DECODES + 1]
WIDE, NARROW, UNEVEN = (80, 64), (64, 80), (PIECES * 10 + 1, 80)


@pytest.fixture(params=[1, 2], ids=["one thread", "two threads"])
def threads(request: pytest.FixtureRequest) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield
    torch.set_num_threads(before)


@pytest.fixture(params=[True, False], ids=["with oneDNN", "without"])
def onednn(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if not request.param:
        monkeypatch.setattr("minivllm.kernels.linear._onednn_linear", None)


@pytest.mark.usefixtures("threads", "onednn")
@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("shape", [WIDE, NARROW, UNEVEN], ids=["wide", "narrow", "uneven"])
def test_the_product_equals_float64(rows: int, shape: tuple[int, int]) -> None:
    generator = torch.Generator().manual_seed(rows)
    x, weight = torch.randn(rows, shape[1], generator=generator), torch.randn(shape, generator=generator)
    result = linear(x, weight)
    assert result.shape == (rows, shape[0]) and result.is_contiguous()
    torch.testing.assert_close(result.double(), x.double() @ weight.double().T, atol=1e-4, rtol=1e-5)


@pytest.mark.usefixtures("threads", "onednn")
@pytest.mark.parametrize("rows", ROWS[1:])
@pytest.mark.parametrize("shape", [WIDE, NARROW], ids=["wide", "narrow"])
def test_a_row_that_is_a_view_of_something_else_is_read_alone(rows: int, shape: tuple[int, int]) -> None:
    around = torch.full((rows, 200), float("nan"))
    around[:, : shape[1]] = 1.0
    assert linear(around[:, : shape[1]], torch.ones(shape)).eq(shape[1]).all()


@pytest.mark.parametrize("rows", ROWS[1:])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_other_dtypes_work_all_the_same(rows: int, dtype: torch.dtype) -> None:
    assert linear(torch.ones(rows, 64, dtype=dtype), torch.ones(WIDE, dtype=dtype)).eq(64).all()
