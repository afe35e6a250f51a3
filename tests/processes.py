"""Looking for processes that a test started and that should be gone."""

from __future__ import annotations

import time

import psutil  # type: ignore[import-untyped]

PATIENCE = 5.0
LOOK_EVERY = 0.05


def still_running(mark: str) -> list[int]:
    """The ids of processes with `mark` in an argument that are there after a few seconds of patience."""
    deadline = time.monotonic() + PATIENCE
    while (found := _running(mark)) and time.monotonic() < deadline:
        time.sleep(LOOK_EVERY)
    return found


def _running(mark: str) -> list[int]:
    """psutil passes over a process that ends while it is looked at."""
    processes = psutil.process_iter(["cmdline"])
    return [process.pid for process in processes if any(mark in part for part in process.info["cmdline"] or ())]
