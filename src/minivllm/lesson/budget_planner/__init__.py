"""1-budget-planner: a planner beside the real scheduler."""
