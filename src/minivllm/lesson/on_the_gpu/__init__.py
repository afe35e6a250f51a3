"""5-on-the-gpu: from a schedule to tensors, a reader's kernels, benchmarks."""
