"""An error of the course itself: in a notebook one sentence, without the frames that led to it."""


class LessonError(ValueError):
    def _render_traceback_(self) -> list[str]:
        """IPython asks for this in place of a traceback."""
        return [f"{type(self).__name__}: {self}"]
