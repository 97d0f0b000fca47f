"""What measures whether a page fits: it finds what a person would see at once."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser

from tests.browser.layout import misfits, small_targets

BAD = {
    "is cut": "<div style='width:60px;overflow:hidden;white-space:nowrap'>far too long</div>",
    "lies on another": "<p>one</p><p style='position:relative;top:-34px'>two</p>",
    "px wide in a window": "<div style='width:2000px'>wide</div>",
    "is beside the window": "<p style='position:fixed;left:-90px'>gone aside</p>",
}


@pytest.mark.parametrize("what", BAD)
def test_what_does_not_fit_is_found(browser: Browser, what: str) -> None:
    """Each by its own words."""
    page = browser.new_page()
    page.set_content(BAD[what])
    found = misfits(page)
    page.close()
    assert [one for one in found if what in one], found


def test_what_fits_is_not(browser: Browser) -> None:
    """Neither what stands in its frame, nor what only screen readers see."""
    page = browser.new_page()
    page.set_content(
        "<p>one</p><p>two</p><div style='overflow:hidden'>short</div>"
        "<span class='unseen' style='position:absolute;top:0'>unseen</span>"
    )
    assert misfits(page) == []
    page.close()


def test_a_button_too_small_for_a_finger_is_found(browser: Browser) -> None:
    """With its size."""
    page = browser.new_page()
    page.set_content("<button style='width:20px;height:20px'>x</button>")
    assert small_targets(page) == ["x: 20 x 20"]
    page.close()
