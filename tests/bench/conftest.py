"""The real model's file."""

from tests.model.conftest import one_thread, smollm2_file

__all__ = ["one_thread", "smollm2_file"]
