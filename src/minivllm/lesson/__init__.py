"""What the notebooks import: predictions, checks, the view of a scheduler's step, and the driver for a planner."""

from minivllm.lesson.checks import check
from minivllm.lesson.load import Arrival, Load, watch_load
from minivllm.lesson.outcome import ______, door
from minivllm.lesson.planner import run_planner
from minivllm.lesson.predict import predict, settle
from minivllm.lesson.watch import gaps, watch_step

__all__ = [
    "Arrival",
    "Load",
    "______",
    "check",
    "door",
    "gaps",
    "predict",
    "run_planner",
    "settle",
    "watch_load",
    "watch_step",
]
