"""A reader's code at work in the engine, beside the engine's own and beside what vLLM did."""
