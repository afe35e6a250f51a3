"""A reader's code in the place of the engine's, against what vLLM 0.28.0 really did."""
