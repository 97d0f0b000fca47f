"""What can a person do with the page, and what do they see?

Each person has a browser profile of their own. Pictures are compared as small grey thumbnails taken
from the video element itself, so they show what was decoded and not what the page draws over it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect

from tests.support.stage_system import System
from tests.support.wait import scaled_s, wait_until_sync

ON_STAGE_WITHIN_S = 20.0
_THUMBNAIL = """() => {
  const video = document.querySelector('video');
  if (!video || video.videoWidth === 0) return null;
  const canvas = document.createElement('canvas');
  canvas.width = 32; canvas.height = 18;
  const context = canvas.getContext('2d');
  context.drawImage(video, 0, 0, 32, 18);
  const { data } = context.getImageData(0, 0, 32, 18);
  const grey = [];
  for (let i = 0; i < data.length; i += 4) grey.push((data[i] + data[i + 1] + data[i + 2]) / 3);
  return grey;
}"""

Thumbnail = list[float]


def difference(one: Thumbnail, other: Thumbnail) -> float:
    """Return how far two pictures are apart: mean grey level, 0 to 255."""
    return sum(abs(a - b) for a, b in zip(one, other, strict=True)) / len(one)


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody with one page open."""

    page: Page

    @property
    def debug(self) -> dict[str, Any]:
        """The page's own read-only facts."""
        facts: dict[str, Any] = self.page.evaluate("() => ({...window.__greenroom})")
        return facts

    @property
    def session_id(self) -> str:
        """The session that this page has."""
        return str(self.debug["sessionId"])

    @property
    def heading(self) -> Locator:
        """The page's heading; there's none on stage."""
        return self.page.get_by_role("heading", level=1)

    @property
    def curtain(self) -> Locator:
        """The words over the picture."""
        return self.page.locator(".curtain")

    def enter(self, prompt: str = "a quiet harbour at dusk") -> None:
        """Fill in the start card and press Enter on the keyboard."""
        self.page.get_by_role("textbox", name="Where do you want to go?").fill(prompt)
        self.page.keyboard.press("Enter")

    def press_button(self, name: str) -> None:
        """Press a button; the pointer moves, so that a faded bar is there."""
        self.page.mouse.move(40, 40)
        self.page.mouse.move(60, 60)
        self.page.get_by_role("button", name=name, exact=True).click()

    def is_on_stage(self) -> bool:
        """Tell whether real frames arrive now."""
        facts = self.debug
        return (facts["state"], facts["picture"]) == ("running", "live")

    def wait_for_stage(self, within_s: float = ON_STAGE_WITHIN_S) -> None:
        """Wait until the world is there."""
        wait_until_sync(self.is_on_stage, f"the world is shown ({self.page.title()})", within_s)

    def thumbnail(self) -> Thumbnail:
        """Return the picture as it is now, small and grey."""
        picture: Thumbnail = wait_until_sync(
            lambda: self.page.evaluate(_THUMBNAIL), "the video has a picture"
        )
        return picture

    def picture_moves_from(self, before: Thumbnail, by: float) -> bool:
        """Tell whether the picture is at least *by* grey levels away from *before*."""
        return difference(before, self.thumbnail()) >= by


class People:
    """All people of one test."""

    def __init__(self, browser: Browser, system: System) -> None:
        self._browser = browser
        self._system = system
        self._contexts: list[BrowserContext] = []
        self._broken: list[str] = []

    def arrive(self, path: str = "/", *, init_script: str | None = None, **options: Any) -> Person:
        """Somebody new opens the page; *options* are those of a browser profile."""
        context = self._browser.new_context(base_url=self._system.address, **options)
        context.set_default_timeout(scaled_s(15) * 1000)
        self._contexts.append(context)
        if init_script is not None:
            context.add_init_script(init_script)
        return self.open_tab(context, path)

    def open_tab(self, context: BrowserContext, path: str = "/") -> Person:
        """Open one more tab in the same profile."""
        page = context.new_page()
        page.on("pageerror", lambda error: self._broken.append(str(error)))
        page.on("console", lambda line: self._note(line.text))
        page.goto(path)
        return Person(page)

    def _note(self, line: str) -> None:
        # What the content security policy stopped only shows up in the console.
        if "Content Security Policy" in line or "Content-Security-Policy" in line:
            self._broken.append(line)

    def go_home(self) -> None:
        """End every session and close every page; fail if a page met an error of its own."""
        pages = [Person(page) for context in self._contexts for page in context.pages]
        facts = [one.debug["sessionId"] for one in pages if not one.page.url.startswith("about:")]
        for context in self._contexts:
            context.close()
        for session_id in sorted({session_id for session_id in facts if session_id}):
            self._system.end(session_id)
        assert not self._broken, f"the page broke: {self._broken}"


def see(locator: Locator, text: str, within_s: float = 10.0) -> None:
    """Wait until *locator* shows *text*."""
    expect(locator).to_contain_text(text, timeout=scaled_s(within_s) * 1000)
