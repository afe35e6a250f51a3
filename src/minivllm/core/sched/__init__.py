"""Who runs in a step, and with how many tokens."""
