"""Requests that wait, in the order of the policy.

Mirrors vllm/v1/core/sched/request_queue.py (FCFSRequestQueue, PriorityRequestQueue, create_request_queue).
"""

import heapq
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Collection, Iterator

from minivllm.request import Request


class RequestQueue(ABC):
    """A queue whose head is the next request to admit."""

    @abstractmethod
    def add_request(self, request: Request) -> None: ...

    @abstractmethod
    def prepend_request(self, request: Request) -> None:
        """Puts a preempted request back."""

    @abstractmethod
    def peek_request(self) -> Request:
        """The head; it stays in the queue."""

    @abstractmethod
    def pop_request(self) -> Request: ...

    @abstractmethod
    def remove_requests(self, requests: Collection[Request]) -> None: ...

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __iter__(self) -> Iterator[Request]:
        """The requests in the order in which they would be admitted."""


class FCFSRequestQueue(RequestQueue):
    """First come, first served; a preempted request goes to the front."""

    def __init__(self) -> None:
        self._queue: deque[Request] = deque()

    def add_request(self, request: Request) -> None:
        self._queue.append(request)

    def prepend_request(self, request: Request) -> None:
        self._queue.appendleft(request)

    def peek_request(self) -> Request:
        return self._queue[0]

    def pop_request(self) -> Request:
        return self._queue.popleft()

    def remove_requests(self, requests: Collection[Request]) -> None:
        self._queue = deque(request for request in self._queue if request not in requests)

    def __len__(self) -> int:
        return len(self._queue)

    def __iter__(self) -> Iterator[Request]:
        return iter(self._queue)


class PriorityRequestQueue(RequestQueue):
    """A heap by priority, arrival and id. It has no front: a preempted request takes its normal place."""

    def __init__(self) -> None:
        self._heap: list[Request] = []

    def add_request(self, request: Request) -> None:
        heapq.heappush(self._heap, request)

    def prepend_request(self, request: Request) -> None:
        self.add_request(request)

    def peek_request(self) -> Request:
        return self._heap[0]

    def pop_request(self) -> Request:
        return heapq.heappop(self._heap)

    def remove_requests(self, requests: Collection[Request]) -> None:
        self._heap = [request for request in self._heap if request not in requests]
        heapq.heapify(self._heap)

    def __len__(self) -> int:
        return len(self._heap)

    def __iter__(self) -> Iterator[Request]:
        return iter(sorted(self._heap))


def create_request_queue(policy: str) -> RequestQueue:
    """The queue of a policy, "fcfs" or "priority" (SchedulerConfig checks the name)."""
    return PriorityRequestQueue() if policy == "priority" else FCFSRequestQueue()
