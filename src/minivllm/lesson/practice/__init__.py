"""Checks of the functions and kernels that a notebook leaves to the reader, beside minivllm's own. No points."""
