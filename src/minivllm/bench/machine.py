"""What all results share: when and on what they were measured, and how many measurements become one number."""

import math
import os
import platform
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from minivllm.errors import MinivllmError

if TYPE_CHECKING:
    from torch import nn


class BenchError(MinivllmError):
    """A measurement that can't be made; the message says why and what to do."""


def where_and_when() -> dict[str, str]:
    """``date`` and ``machine``."""
    return {
        "date": date.today().isoformat(),
        "machine": f"{_cpu_name()}, {os.cpu_count()} cores, {platform.system()}",
    }


def device_and_dtype(model: "nn.Module") -> dict[str, str]:
    """``device``, a GPU by its name, and the ``dtype`` of the weights."""
    import torch

    weight = next(model.parameters())
    name = torch.cuda.get_device_name(weight.device) if weight.device.type == "cuda" else weight.device.type
    return {"device": name, "dtype": str(weight.dtype).removeprefix("torch.")}


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest of ``values`` that at least ``percent`` percent of them do not exceed (nearest rank)."""
    return sorted(values)[max(math.ceil(len(values) * percent / 100) - 1, 0)]


def _cpu_name() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
