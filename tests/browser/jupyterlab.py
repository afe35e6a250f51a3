"""A real JupyterLab on a free port, and the few things that a student does in it, for Playwright."""

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Locator, Page, expect, sync_playwright

TOKEN = "a-token-of-this-test"
PATIENCE = 90_000  # milliseconds, for whatever is waited for on a busy machine
CHROMIUM = "/usr/bin/chromium"
CHROMIUM_ARGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
# Every cell stays in the page, so that a test can reach it; no pop-up about news or updates.
SETTINGS = {
    "@jupyterlab/notebook-extension/tracker": {"windowingMode": "none"},
    "@jupyterlab/apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
}


@contextlib.contextmanager
def jupyterlab(folder: Path, home: Path) -> Iterator[str]:
    """JupyterLab on `folder`, with all that it keeps under `home`; yields its address."""
    for name, values in SETTINGS.items():
        path = home / "settings" / f"{name}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(values))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", f"--port={port}"]
    command += ["--ServerApp.port_retries=0", f"--ServerApp.root_dir={folder}", f"--IdentityProvider.token={TOKEN}"]
    environment = os.environ | {
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
        "JUPYTERLAB_SETTINGS_DIR": str(home / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces"),
        "IPYTHONDIR": str(home / "ipython"),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
    }
    with (home / "jupyterlab.log").open("w") as log:
        server = subprocess.Popen(command, env=environment, cwd=folder, stdout=log, stderr=subprocess.STDOUT)
        address = f"http://127.0.0.1:{port}"
        try:
            _wait_until_it_answers(f"{address}/api/status?token={TOKEN}", server, home / "jupyterlab.log")
            yield address
        finally:
            server.terminate()
            try:
                server.wait(timeout=30)
            except subprocess.TimeoutExpired:  # it waits for a kernel that never came up; its kernels end without it
                server.kill()
                server.wait()


def _wait_until_it_answers(url: str, server: "subprocess.Popen[bytes]", log: Path, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and server.poll() is None:
        with contextlib.suppress(urllib.error.URLError), urllib.request.urlopen(url, timeout=5):
            return
        time.sleep(0.2)
    raise AssertionError(f"JupyterLab does not answer:\n{log.read_text()[-2000:]}")


@contextlib.contextmanager
def browser_page() -> Iterator[Page]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_ARGS)
        try:
            page = browser.new_page(viewport={"width": 1280, "height": 1000})
            page.set_default_timeout(PATIENCE)
            expect.set_options(timeout=PATIENCE)
            yield page
        finally:
            browser.close()


@dataclass(frozen=True)
class NotebookPage:
    """One notebook, open in JupyterLab."""

    page: Page

    @classmethod
    def open(cls, page: Page, address: str, name: str) -> "NotebookPage":
        page.goto(f"{address}/lab/tree/{name}?token={TOKEN}")
        notebook = cls(page)
        expect(page.locator(".jp-NotebookPanel-notebook .jp-Cell").first).to_be_visible()
        notebook.wait_until_idle()
        return notebook

    def wait_until_idle(self) -> None:
        """The kernel is idle, and no cell waits for it."""
        expect(self.page.locator(".jp-StatusBar-TextItem", has_text="| Idle")).to_be_visible()
        expect(self.page.locator(".jp-InputPrompt", has_text="[*]")).to_have_count(0)

    def _wait_until_it_ran(self, prompt: Locator, before: str) -> None:
        """The cell of this prompt has another number than before, and the kernel is idle."""
        expect(prompt).to_have_text(re.compile(rf"^(?!{re.escape(before)}$)\[\d+\]:$"))
        self.wait_until_idle()

    def menu(self, menu: str, item: str) -> None:
        self.page.locator(".lm-MenuBar-itemLabel", has_text=menu).click()
        self.page.locator(".lm-Menu-itemLabel", has_text=item).first.click()

    def run_all(self) -> None:
        """Run > Run All Cells; returns when the run has ended, at its end or at an error."""
        first = self.page.locator(".jp-CodeCell .jp-InputArea-prompt").first  # a folded cell has none
        before = first.inner_text()
        self.menu("Run", "Run All Cells")
        self._wait_until_it_ran(first, before)

    def run(self, text: str) -> Locator:
        """Run the code cell whose input holds `text`, and return it once the kernel is idle again."""
        cell = self.cell(text)
        prompt = cell.locator(".jp-InputArea-prompt")
        before = prompt.inner_text()
        cell.locator(".cm-content").click()
        self.page.keyboard.press("ControlOrMeta+Enter")
        self._wait_until_it_ran(prompt, before)
        return cell

    def cell(self, text: str) -> Locator:
        """The code cell whose input holds `text`."""
        return self.page.locator(".jp-CodeCell").filter(has=self.page.locator(".jp-InputArea", has_text=text)).first

    def rewrite(self, cell: Locator, code: str) -> None:
        """Replace the whole input of `cell`, as a student would paste it."""
        cell.locator(".cm-content").click()
        self.page.keyboard.press("ControlOrMeta+A")
        self.page.keyboard.insert_text(code)

    def rewrite_markdown(self, text: str, markdown: str) -> None:
        """Replace the whole of the last markdown cell that holds `text`, rendered or not."""
        cell = self.page.locator(".jp-MarkdownCell").filter(has_text=text).last
        cell.locator(".jp-MarkdownOutput").dblclick()
        self.rewrite(cell, markdown)
        self.page.keyboard.press("Shift+Enter")

    def errors(self) -> list[str]:
        """What the last run raised (or wrote to stderr), one entry a cell."""
        return self.page.locator(
            ".jp-OutputArea-output[data-mime-type='application/vnd.jupyter.stderr']"
        ).all_inner_texts()

    def screenshot(self, place: Locator, path: Path) -> None:
        """The window as it looks with `place` in its middle."""
        place.evaluate("element => element.scrollIntoView({block: 'center'})")
        self.page.screenshot(path=path)

    def validate(self) -> str:
        """Press nbgrader's Validate and return what its dialog says."""
        self.page.locator(".jp-NotebookPanel-toolbar .jp-ToolbarButtonComponent", has_text="Validate").first.click()
        dialog = self.page.locator(".jp-Dialog-content")
        expect(dialog).to_be_visible()
        return dialog.inner_text()

    def dismiss(self) -> None:
        """Close the open dialog."""
        self.page.locator(".jp-Dialog-footer button").last.click()
        expect(self.page.locator(".jp-Dialog-content")).to_have_count(0)
