"""However few the rows, and in whatever layout: the product is x @ weight.T."""

import pytest
import torch

from minivllm.kernels.linear import FEW_ROWS, PackedLinear, linear


@pytest.mark.parametrize("rows", [0, 1, 2, FEW_ROWS, FEW_ROWS + 1, 70])
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "packed"])
def test_the_product_equals_float64(rows: int, packed: bool) -> None:
    generator = torch.Generator().manual_seed(rows)
    x, weight = torch.randn(rows, 96, generator=generator), torch.randn(80, 96, generator=generator)
    result = PackedLinear(weight)(x) if packed else linear(x, weight)
    assert result.shape == (rows, 80) and result.is_contiguous()
    torch.testing.assert_close(result.double(), x.double() @ weight.double().T, atol=1e-4, rtol=1e-5)


@pytest.mark.parametrize("rows", [1, FEW_ROWS + 1])
def test_a_row_that_is_a_view_of_something_else_is_read_alone(rows: int) -> None:
    wide = torch.full((rows, 200), float("nan"))
    wide[:, :64] = 1.0
    for product in (linear, lambda x, weight: PackedLinear(weight)(x)):
        assert product(wide[:, :64], torch.ones(8, 64)).eq(64).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_other_dtypes_have_no_packed_layout_and_work_all_the_same(dtype: torch.dtype) -> None:
    weight = torch.ones(8, 16, dtype=dtype)
    assert not PackedLinear.helps(weight)
    assert PackedLinear(weight)(torch.ones(6, 16, dtype=dtype)).eq(16).all()
