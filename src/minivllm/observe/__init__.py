"""Looking at a run without taking part in it: recordings, invariants, replayed traces. ``core`` knows nothing of it."""
