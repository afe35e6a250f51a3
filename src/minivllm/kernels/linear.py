"""``x @ weight.T``. Not a kernel of ours: the libraries have it, and on a CPU only have to be asked well.

A decode step has one row a request. That is too few for a matrix product to be bound by arithmetic: what counts is how
fast the weights are read, and MKL reads them faster for ``weight @ x.T`` with at least two columns than for
``x @ weight.T``. `minivllm bench engine` says what share of a run is spent here.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

FEW_ROWS = 4
"""Rows up to which ``weight @ x.T`` is the faster of the two."""


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
    columns = torch.cat((x, x)) if rows == 1 else x
    return torch.mm(weight, columns.t())[:, :rows].t().contiguous()


class PackedLinear:
    """``x @ weight.T`` for a large matrix on a CPU: a copy of the weight in the layout that oneDNN reads fastest.

    Faster than MKL's, but the sums round a little more. For the last matrix of a model that is harmless; through
    all layers it adds up to more than 1e-4 in the logits, so the layers use ``linear``.
    """

    def __init__(self, weight: Tensor) -> None:
        self._weight = weight
        self._packed = torch.ops.mkldnn._reorder_linear_weight(weight) if self.helps(weight) else None

    @staticmethod
    def helps(weight: Tensor) -> bool:
        """Whether there is such a layout for this weight: float32, on a CPU, in a build of torch with oneDNN."""
        on_cpu = weight.device.type == "cpu" and weight.dtype == torch.float32
        return on_cpu and hasattr(torch.ops.mkldnn, "_reorder_linear_weight")

    def __call__(self, x: Tensor) -> Tensor:
        if self._packed is None or len(x) <= FEW_ROWS:
            return linear(x, self._weight)
        product: Tensor = torch.ops.mkldnn._linear_pointwise(x.contiguous(), self._packed, None, "none", [], "")
        return product
