"""What the model computes on its tensors: Triton kernels, a torch twin of each, and `dispatch`, which picks."""

from minivllm.kernels.dispatch import Kernels, TritonUnavailableError, kernels_for

__all__ = ["Kernels", "TritonUnavailableError", "kernels_for"]
