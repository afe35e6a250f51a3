"""An error of the course itself."""

from minivllm.errors import MinivllmError


class LessonError(MinivllmError, ValueError):
    """A question, load or trace that there is not, or a value that it does not take."""
