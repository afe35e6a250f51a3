"""``x @ weight.T``. Not a kernel of ours: the libraries have it, and on a CPU only have to be asked well.

A decode step has one row a request. That is too few for a matrix product to be bound by arithmetic: what counts is how
fast the weights are read. `minivllm bench engine` says what share of a run is spent here.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

FEW_ROWS = 4
"""Rows up to which MKL's ``weight @ x.T`` is the fastest."""

STEP_OF_DECODES = 64
"""Rows up to which the layers' products are asked for otherwise than with ``F.linear``."""

PIECES = 4
"""Into so many equal pieces the rows of a weight are cut for MKL's threads."""

# torch's own compiler calls it; a build without oneDNN lacks it.
_onednn_linear = getattr(torch.ops.mkldnn, "_linear_pointwise", None)


def linear(x: Tensor, weight: Tensor) -> Tensor:
    """``x @ weight.T``.

    Args:
        x: [n, in_features].
        weight: [out_features, in_features], of the same dtype and device.

    Returns:
        [n, out_features], contiguous.
    """
    rows = len(x)
    if not x.is_cpu or x.dtype != torch.float32 or not 0 < rows <= STEP_OF_DECODES:
        return F.linear(x, weight)
    if rows <= FEW_ROWS:
        return _transposed(x, weight)
    out_features, in_features = weight.shape
    # oneDNN is the fastest, for a whole prompt too, but rounds more than MKL, and through all layers that adds up to
    # more than 1e-4 in the logits. The wide products of a step of decodes are most of its work and add little to that:
    # tests/model/test_smollm2.py has the logits of decodes beside float64.
    if _onednn_linear and out_features > in_features:
        product: Tensor = _onednn_linear(x.contiguous(), weight, None, "none", [], "")
        return product
    if torch.get_num_threads() > 1 and out_features % PIECES == 0:
        return _in_pieces(x, weight)
    return F.linear(x, weight)


def _transposed(x: Tensor, weight: Tensor) -> Tensor:
    """As ``weight @ x.T``, for which MKL reads the weight faster."""
    # One row would be a matrix-vector product, which MKL does slowly: the second column is thrown away.
    columns = torch.cat((x, x)) if len(x) == 1 else x
    return torch.mm(weight, columns.t())[:, : len(x)].t().contiguous()


def _in_pieces(x: Tensor, weight: Tensor) -> Tensor:
    """As a batch of products with pieces of the weight: several MKL threads do that faster than one thin product."""
    pieces = weight.unflatten(0, (PIECES, -1)).transpose(1, 2)  # type: ignore[no-untyped-call]
    return torch.bmm(x.expand(PIECES, -1, -1), pieces).transpose(0, 1).flatten(1)
