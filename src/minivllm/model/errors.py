"""The one error that a user of models meets."""

from pathlib import Path

from minivllm.errors import MinivllmError


class ModelError(MinivllmError):
    """A model that cannot be fetched, read or run; the message names the thing, the value and the remedy."""


def unreadable(path: Path, error: OSError) -> ModelError:
    return ModelError(
        f"{path} cannot be read ({error.strerror or error}): put a file there that you may read, or get it again."
    )
