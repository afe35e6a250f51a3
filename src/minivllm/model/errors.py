"""The one error that a user of models meets."""

from minivllm.errors import MinivllmError


class ModelError(MinivllmError):
    """A model that cannot be fetched, read or run; the message names the thing, the value and the remedy."""
