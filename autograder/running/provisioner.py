"""Jupyter kernels in the sandbox: a kernel provisioner of jupyter_client, registered under the name NAME.

`nbgrader_config.py` makes it the default, so that every kernel that an nbgrader command starts here runs apart from
the answers and the class (``nbgrader validate`` on a submission, say). TCP can't cross into the sandbox: a kernel is
reached through sockets in a private folder that it shares with its client.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

from jupyter_client.provisioning.factory import KernelProvisionerFactory
from jupyter_client.provisioning.local_provisioner import LocalProvisioner

from autograder.running.sandbox import PROCESSES, REMEDY, SandboxError, sandbox

NAME = "minivllm-sandbox"
CPU_SECONDS = 600


class SandboxProvisioner(LocalProvisioner):
    """Starts ipykernel in bubblewrap. Raises SandboxError where there is none."""

    _folder: str | None = None

    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:
        box = sandbox()
        if not box.boxed:
            raise SandboxError(f"{box.lacks}: {REMEDY}")
        manager: Any = self.parent
        self.kernel_spec.interrupt_mode = "message"  # a signal would reach bubblewrap, not the kernel
        if self._folder is None:
            self._folder = tempfile.mkdtemp(prefix="minivllm-kernel-")
            manager.transport, manager.ip = "ipc", f"{self._folder}/socket"
            manager.connection_file = f"{self._folder}/connection.json"
            manager.cache_ports = False
        ready = await super().pre_launch(**kwargs)
        user = box.user()
        if user is not None:
            for path in (self._folder, manager.connection_file):
                os.chown(path, user, user)
        arguments = (str(user or ""), str(PROCESSES), str(CPU_SECONDS), "kernel", "-f", manager.connection_file)
        parent = "--IPKernelApp.parent_handle=1"  # as it is numbered in there
        options = (parent, "--IPKernelApp.log_level=CRITICAL", "--HistoryManager.enabled=False")
        ready["cmd"] = box.command(*arguments, *options, shown=(Path(self._folder),))
        ready["env"] = box.environment()
        ready["cwd"] = self._folder
        return ready

    async def cleanup(self, restart: bool = False) -> None:
        await super().cleanup(restart)
        if self._folder is not None and not restart:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None


def register() -> None:
    """Make the name NAME known to jupyter_client in this process; an entry point would need an installation."""
    place = EntryPoint(NAME, f"{__name__}:{SandboxProvisioner.__name__}", KernelProvisionerFactory.GROUP_NAME)
    KernelProvisionerFactory.provisioners[NAME] = place
