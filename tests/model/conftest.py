"""The real model, loaded once for all tests of a run."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from minivllm.model.loader import LoadedModel, load_model
from tests.model.smollm2 import smollm2_path


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> Iterator[None]:
    """Two threads on a machine that does something else too are several times slower than one."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def smollm2_file() -> Path:
    return smollm2_path()


@pytest.fixture(scope="session")
def smollm2(smollm2_file: Path) -> LoadedModel:
    return load_model(str(smollm2_file))
