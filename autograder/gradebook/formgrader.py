"""Who types into the formgrader: its users by name, for the decisions that its requests make."""

from __future__ import annotations

import getpass
import os
from typing import Any

from autograder.gradebook import decisions


def listen() -> None:
    """Hear what people decide in this process, and in the formgrader's requests whose it is."""
    if decisions.listen():
        _name_the_users()


def _name_the_users() -> None:
    from nbgrader.server_extensions.formgrader import apihandlers

    for handler in (apihandlers.GradeHandler, apihandlers.CommentHandler):
        handler.put = _by_the_user(handler.put)


def _by_the_user(put: Any) -> Any:
    def attributed(self: Any, *arguments: Any) -> Any:
        with decisions.acting(user_of(self.current_user)):
            return put(self, *arguments)

    return attributed


def user_of(user: Any) -> str:
    """A user of Jupyter's server by name. Whom a token let in has a made-up one, which tells two browsers apart."""
    name = str(getattr(user, "display_name", None) or getattr(user, "username", None) or user or "")
    if not name or name.startswith("Anonymous"):
        server = os.environ.get("JUPYTERHUB_USER") or getpass.getuser()
        return f"{server} ({name})" if name else server
    return name
