"""The real model, and transformers' Llama with the same weights."""

from typing import Any

import pytest

from minivllm.model.loader import LoadedModel
from minivllm.model.weights import open_checkpoint
from tests.model.conftest import one_thread, smollm2, smollm2_file
from tests.model.reference import transformers_llama

__all__ = ["one_thread", "smollm2", "smollm2_file", "transformers_smollm2"]


@pytest.fixture(scope="session")
def transformers_smollm2(smollm2: LoadedModel, smollm2_file: Any) -> Any:
    checkpoint = open_checkpoint(smollm2_file)
    return transformers_llama(checkpoint.config, dict(checkpoint.weights()))
