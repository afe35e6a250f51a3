"""What stays the same while a recording is stepped through, so that a picture changes only where the run does."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from minivllm.observe.frame import Frame
from minivllm.observe.recording import Recording

NUM_TONES = 7  # owner colours; see frame_style
MAX_ROWS = 40  # requests drawn in one step
MIN_WAITING = 4  # of them at least so many waiting ones
MAX_BLOCKS = 256  # blocks drawn in one step
MAX_TAG = 4  # characters of a name inside a cell


@dataclass(frozen=True)
class Scene:
    """The measures of a whole recording.

    Attributes:
        tags: a short name for each request: its id, or the end of it, or its number in the recording.
        tones: the colour of each request; colours repeat, names do not.
        longest: the largest target of any request, in tokens: the scale of all bars.
        num_rows: the most rows that one step draws.
        num_groups: KV cache groups that share the pool.
        num_blocks: blocks of the pool, the null block included.
        num_free: the most free blocks of one step.
        num_lines: the most sentences of one step.
        frees_later: whether some request finishes, so that a free queue changes behind the model.
    """

    frames: tuple[Frame, ...]
    tags: dict[str, str]
    tones: dict[str, int]
    longest: int
    num_rows: int
    num_groups: int
    num_blocks: int
    num_free: int
    num_lines: int
    max_num_seqs: int
    block_size: int
    frees_later: bool

    @classmethod
    def of(cls, recording: Recording) -> Scene:
        frames = tuple(recording.frames)
        ids = list(dict.fromkeys(request.request_id for frame in frames for request in frame.requests))
        config = recording.scheduler.config
        return cls(
            frames=frames,
            tags=short_names(ids),
            tones={request_id: number % NUM_TONES for number, request_id in enumerate(ids)},
            longest=max((request.target for frame in frames for request in frame.requests), default=1),
            num_rows=max(map(_num_rows, frames), default=0),
            num_groups=len(config.cache.kv_cache_groups),
            num_blocks=config.cache.num_gpu_blocks,
            num_free=max((len(frame.free_queue) for frame in frames), default=0),
            num_lines=max((len(frame.why) for frame in frames), default=1),
            max_num_seqs=config.scheduler.max_num_seqs,
            block_size=config.cache.block_size,
            frees_later=any(frame.finished for frame in frames),
        )

    def tag(self, request_id: str) -> str:
        return self.tags[request_id]


def shown(frame: Frame) -> tuple[int, int]:
    """How many running and how many waiting requests of a step are drawn."""
    waiting = min(len(frame.waiting), max(MIN_WAITING, MAX_ROWS - len(frame.running)))
    return min(len(frame.running), MAX_ROWS - min(waiting, MIN_WAITING)), waiting


def _num_rows(frame: Frame) -> int:
    running, waiting = shown(frame)
    return running + (running < len(frame.running)) + waiting + (waiting < len(frame.waiting))


def printable(text: str) -> str:
    """The text without line breaks, control characters and half characters, which no page and no picture can hold."""
    return "".join(character if character.isprintable() else "\ufffd" for character in text)


def short_names(request_ids: Iterable[str]) -> dict[str, str]:
    """A name of at most four characters for each id, no two alike.

    An id that is short enough is its own name, a longer one goes by its last characters or else by its number.
    """
    ids = list(request_ids)
    ends: dict[str, int] = {}
    for request_id in ids:
        ends[request_id[1 - MAX_TAG :]] = ends.get(request_id[1 - MAX_TAG :], 0) + 1
    names: dict[str, str] = {}
    for number, request_id in enumerate(ids):
        end = request_id[1 - MAX_TAG :]
        if len(request_id) <= MAX_TAG and request_id[0] not in "…~":
            names[request_id] = printable(request_id)
        elif ends[end] == 1:
            names[request_id] = f"…{printable(end)}"
        else:
            names[request_id] = f"~{number}"
    return names


def clipped(items: Sequence[str], limit: int) -> list[str]:
    """The first ``limit`` items, and a last one that says how many more there are."""
    more = len(items) - limit
    return [*items[:limit], *([f"… {more} more"] if more > 0 else [])]
