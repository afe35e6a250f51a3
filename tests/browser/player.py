"""What a student does with the player of a recording, for Playwright."""

from dataclasses import dataclass
from typing import Literal

from playwright.sync_api import Locator, expect

from tests.browser.jupyterlab import NotebookPage

# Runs in the page: presses the button and waits until the step's heading has changed and been painted.
_MILLISECONDS_OF_A_CLICK = """
async ([output, name]) => {
    const heading = () => output.querySelector('.mv-head b').textContent
    const button = [...output.querySelectorAll('button')].find(b => b.textContent.trim().startsWith(name))
    const before = heading(), start = performance.now()
    button.click()
    while (heading() === before) {
        if (performance.now() - start > 10000) throw new Error(`the step did not change after a click on ${name}`)
        await new Promise(resolve => setTimeout(resolve, 1))
    }
    await new Promise(resolve => requestAnimationFrame(() => setTimeout(resolve, 0)))
    return performance.now() - start
}
"""


@dataclass(frozen=True)
class PlayerView:
    """The player that one cell shows."""

    output: Locator

    @classmethod
    def of(cls, notebook: NotebookPage, text: str) -> "PlayerView":
        """The player below the code cell whose input holds `text`."""
        view = cls(notebook.cell(text).locator(".jp-OutputArea").first)
        expect(view.stage).to_be_visible()
        return view

    @property
    def stage(self) -> Locator:
        return self.output.locator(".mv").first

    @property
    def step(self) -> int:
        """The step that is shown."""
        return int(self.output.locator(".mv-head b").first.inner_text().removeprefix("step "))

    @property
    def sentences(self) -> list[str]:
        """What happened in the step."""
        return self.output.locator(".mv-why li").all_inner_texts()

    def press(self, name: Literal["previous", "next", "next preemption", "next hit", "next eviction"]) -> None:
        """Press a button that leads to another step, and wait for it."""
        before = self.step
        exact = self.output.get_by_role("button").filter(has_text=name)
        (exact.first if " " in name else self.output.get_by_role("button", name=name, exact=True)).click()
        expect(self.output.locator(".mv-head b").first).not_to_have_text(f"step {before}")

    def slide(self, steps: int) -> None:
        """Move the slider by the keyboard, to the right or (below 0) to the left."""
        handle = self.output.get_by_role("slider").first
        target = self.step + steps
        handle.focus()
        for _ in range(abs(steps)):
            handle.press("ArrowRight" if steps > 0 else "ArrowLeft")
        expect(self.output.locator(".mv-head b").first).to_have_text(f"step {target}")

    def as_text(self) -> str:
        """Press "as text" and return what stands there."""
        self.output.get_by_role("button", name="as text").click()
        text = self.output.locator(".mv pre").first
        expect(text).to_be_visible()
        return text.inner_text()

    def milliseconds_of_a_click(self, name: str) -> float:
        """From a click on a button to the painted change."""
        return float(self.output.evaluate(f"(element, name) => ({_MILLISECONDS_OF_A_CLICK})([element, name])", name))
