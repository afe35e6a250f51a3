"""``x @ weight.T``. Not a kernel of ours: BLAS has it, and on a CPU only has to be asked well.

A decode step has one row a request. That is too few for a matrix product to be bound by arithmetic: what counts is how
fast the weights are read, and MKL reads them two to three times as fast for ``weight @ x.T`` with at least two columns as
for ``x @ weight.T``.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

FEW_ROWS = 8
"""Rows up to which ``weight @ x.T`` is the faster of the two; measured, see benchmarks/README.md."""


def linear(x: Tensor, weight: Tensor) -> Tensor:
    """``x @ weight.T``.

    Args:
        x: [n, in_features].
        weight: [out_features, in_features], of the same dtype and device.

    Returns:
        [n, out_features], contiguous.
    """
    rows = len(x)
    if x.is_cuda or rows > FEW_ROWS:
        return F.linear(x, weight)
    # One row would be a matrix-vector product, which MKL does slowly: the second column is thrown away.
    columns = x.repeat(2, 1) if rows == 1 else x
    return torch.mm(weight, columns.t())[:, :rows].t().contiguous()
