"""The formgrader's own server and API, as its pages use them, without a browser."""

from __future__ import annotations

import contextlib
import http.cookiejar
import json
import os
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from autograder.paths import CLONE
from tests.autograder.classroom import LESSON, NOTEBOOK
from tests.autograder.room import Room
from tests.browser.jupyterlab import TOKEN, jupyterlab


@dataclass(frozen=True)
class Answer:
    """What the server said."""

    status: int
    reason: str
    data: Any


class Browser:
    """Somebody who is logged in: another one is another person to the server."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._cookies = http.cookiejar.CookieJar()
        self._open = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(self._cookies))
        self._open.open(f"{address}/lab?token={TOKEN}", timeout=60).read()
        self.get(f"formgrader/api/assignment/{LESSON}")

    def get(self, path: str) -> Answer:
        return self._ask(urllib.request.Request(f"{self._address}/{path}"))

    def put(self, path: str, data: Any, method: str = "PUT") -> Answer:
        body = data if isinstance(data, bytes) else json.dumps(data).encode()
        xsrf = next(cookie.value for cookie in self._cookies if cookie.name == "_xsrf")
        headers = {"X-CSRFToken": xsrf or "", "X-XSRFToken": xsrf or ""}
        return self._ask(urllib.request.Request(f"{self._address}/{path}", body, headers, method=method))

    def give(self, grade: str, points: Any, extra: Any = None) -> Answer:
        """As the page does when a box for points is left."""
        return self.put(f"formgrader/api/grade/{grade}", {"manual_score": points, "extra_credit": extra})

    def say(self, comment: str, text: str | None) -> Answer:
        return self.put(f"formgrader/api/comment/{comment}", {"manual_comment": text})

    def flag(self, submission: str) -> Answer:
        return self.put(f"formgrader/api/submitted_notebook/{submission}/flag", {}, "POST")

    def _ask(self, request: urllib.request.Request) -> Answer:
        try:
            with self._open.open(request, timeout=60) as answer:
                return Answer(answer.status, answer.reason, _json(answer.read()))
        except urllib.error.HTTPError as error:
            return Answer(error.code, str(error.reason), _json(error.read()))


def _json(data: bytes) -> Any:
    with contextlib.suppress(ValueError):
        return json.loads(data)
    return None


@contextlib.contextmanager
def served(room: Room, home: Path) -> Iterator[str]:
    """The address of a Jupyter server in the root of the clone, for the class of this room."""
    with (
        mock.patch.dict(os.environ, {"MINIVLLM_CLASSROOM": str(room.root / "class"), "PYTHONPATH": str(CLONE)}),
        jupyterlab(CLONE, home) as address,
    ):
        yield address


def grade_id(room: Room, cell: str = "q1_answer", student: str = "a") -> str:
    with room.classroom.gradebook() as gradebook:
        return str(gradebook.find_grade(cell, NOTEBOOK, LESSON, student).id)


def comment_id(room: Room, cell: str = "q1_answer", student: str = "a") -> str:
    with room.classroom.gradebook() as gradebook:
        return str(gradebook.find_comment(cell, NOTEBOOK, LESSON, student).id)


def notebook_id(room: Room, student: str = "a") -> str:
    with room.classroom.gradebook() as gradebook:
        return str(gradebook.find_submission_notebook(NOTEBOOK, LESSON, student).id)
