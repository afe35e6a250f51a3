"""Static pictures (matplotlib); each has sentences that say the same."""

from minivllm.viz.figures.block_occupancy import block_occupancy
from minivllm.viz.figures.budget import Bar, budget_figure
from minivllm.viz.figures.budget_over_time import budget_over_time
from minivllm.viz.figures.flow import schedule_flow
from minivllm.viz.figures.kv_bill import kv_bill
from minivllm.viz.figures.latency import latency_figure
from minivllm.viz.figures.picture import Picture, to_html
from minivllm.viz.figures.timeline import timeline

__all__ = [
    "Bar",
    "Picture",
    "block_occupancy",
    "budget_figure",
    "budget_over_time",
    "kv_bill",
    "latency_figure",
    "schedule_flow",
    "timeline",
    "to_html",
]
