"""One step of a real Scheduler, seen from outside: every request before and after it, and what it was given."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from minivllm.config import EngineConfig
from minivllm.core.sched.output import SchedulerOutput
from minivllm.core.sched.scheduler import Scheduler
from minivllm.lesson.common.table import Table
from minivllm.request import Request

VIEW_COLUMNS = ("request", "status", "computed", "target", "gap")


@dataclass(frozen=True)
class RequestView:
    """The counters of one Request at one moment, in tokens."""

    request_id: str
    status: str
    computed: int
    known: int
    drafts: int

    @classmethod
    def of(cls, request: Request) -> RequestView:
        drafts = len(request.spec_token_ids)
        return cls(
            request.request_id, request.status.name.lower(), request.num_computed_tokens, request.num_tokens, drafts
        )

    @property
    def target(self) -> int:
        """`num_tokens_with_spec`: prompt + outputs + drafts."""
        return self.known + self.drafts

    @property
    def gap(self) -> int:
        return self.target - self.computed

    @property
    def row(self) -> tuple[str, str, int, int, int]:
        """Its cells under VIEW_COLUMNS."""
        return self.request_id, self.status, self.computed, self.target, self.gap


@dataclass(frozen=True)
class Step:
    """What one `schedule()` found and decided; `free_blocks` and `free_blocks_after` are the pool around it."""

    config: EngineConfig
    before: tuple[RequestView, ...]
    after: dict[str, RequestView]
    output: SchedulerOutput
    free_blocks: int
    free_blocks_after: int

    @property
    def budget(self) -> int:
        return self.config.max_num_scheduled_tokens

    @property
    def left(self) -> int:
        return self.budget - self.output.total_num_scheduled_tokens

    @property
    def scheduled(self) -> dict[str, int]:
        return self.output.num_scheduled_tokens

    def drafts_of(self, request_id: str) -> int:
        return len(self.output.scheduled_spec_decode_tokens.get(request_id, ()))

    def hit_of(self, request_id: str) -> int:
        """Tokens that an admission in this step took from the prefix cache."""
        admitted = (*self.output.scheduled_new_reqs, *self.output.scheduled_resumed_reqs)
        return next((data.num_computed_tokens for data in admitted if data.req_id == request_id), 0)

    @property
    def table(self) -> Table:
        return Table(
            (*VIEW_COLUMNS, "scheduled"),
            [(*view.row, self.scheduled.get(view.request_id, 0)) for view in self.before],
            note=f"budget {self.budget}: {self.output.total_num_scheduled_tokens} scheduled, {self.left} left",
        )

    def __repr__(self) -> str:
        return repr(self.table)

    def _repr_html_(self) -> str:
        from minivllm.viz.figures import Bar, budget_figure, to_html

        bars = [
            Bar(
                view.request_id,
                view.status,
                computed=view.computed + self.hit_of(view.request_id),
                scheduled=self.scheduled.get(view.request_id, 0) - self.drafts_of(view.request_id),
                drafts=self.drafts_of(view.request_id),
                target=max(view.target, self.after[view.request_id].computed),
            )
            for view in self.before
        ]
        twin = f"<details><summary>The same as a table</summary>{self.table._repr_html_()}</details>"
        return to_html(budget_figure(bars, self.budget)) + twin


def snapshot(scheduler: Scheduler) -> tuple[RequestView, ...]:
    """Every live request of `scheduler`: running ones in list order, then the waiting queue, head first."""
    live: Iterable[Request] = [*scheduler.running, *scheduler.waiting]
    return tuple(RequestView.of(request) for request in live)


def gaps(scheduler: Scheduler) -> Table:
    """The counters of every live request and the gap that the next step would try to close."""
    rows = [(v.request_id, v.status, v.computed, v.known, v.drafts, v.target, v.gap) for v in snapshot(scheduler)]
    return Table(("request", "status", "computed", "known", "drafts", "target", "gap"), rows)


def watch_step(scheduler: Scheduler) -> Step:
    """Call `scheduler.schedule()` once and return what it found and decided; `.output` is its SchedulerOutput."""
    before = snapshot(scheduler)
    pool = scheduler.kv_cache_manager.block_pool
    free_blocks = pool.get_num_free_blocks()
    output = scheduler.schedule()
    after = {view.request_id: view for view in snapshot(scheduler)}
    return Step(scheduler.config, before, after, output, free_blocks, pool.get_num_free_blocks())
