"""What every result says beside its numbers: when it was measured, and on what."""

import os
import platform
from datetime import date
from pathlib import Path

from minivllm.errors import MinivllmError


class BenchError(MinivllmError):
    """A measurement that can't be made; the message says why and what to do."""


def where_and_when() -> dict[str, str]:
    """``date`` and ``machine``."""
    return {
        "date": date.today().isoformat(),
        "machine": f"{_cpu_name()}, {os.cpu_count()} cores, {platform.system()}",
    }


def _cpu_name() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
