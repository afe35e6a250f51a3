"""The base of every error that is the user's to mend: its message names the thing, the value and the remedy."""


class MinivllmError(Exception):
    """A command line shows the message alone, in one line, and so does a notebook."""

    def _render_traceback_(self) -> list[str]:
        """IPython asks for this in place of a traceback."""
        return [f"{type(self).__name__}: {self}"]
