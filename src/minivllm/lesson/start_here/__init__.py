"""0-start-here: which function calls which, what a token's KV costs, a first generation."""
