"""Does everything on a page fit: nothing cut, nothing on top of something else, nothing aside?

Measured with the browser's own rectangles. What scrolls on purpose, and what only screen readers
see, is left out.
"""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Page

_MEASURE = """() => {
  const found = [];
  const shown = (element) => {
    const style = getComputedStyle(element);
    if (style.visibility === 'hidden' || style.display === 'none') return false;
    for (let up = element; up; up = up.parentElement) {
      if (getComputedStyle(up).opacity === '0' || up.classList.contains('unseen')) return false;
      if (up.tagName === 'DETAILS' && !up.open && !element.closest('summary')) return false;
    }
    return element.getClientRects().length > 0;
  };
  const name = (element) =>
    `${element.tagName.toLowerCase()}.${element.className} ` +
    JSON.stringify((element.textContent || '').trim().slice(0, 40));
  const page = document.documentElement;
  if (page.scrollWidth > page.clientWidth)
    found.push(`the page is ${page.scrollWidth} px wide in a window of ${page.clientWidth}`);
  const modal = document.querySelector('dialog[open]');
  const root = modal ?? document.body;
  const texts = [];
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode;
    const element = text.parentElement;
    if (!text.data.trim() || ['SCRIPT', 'STYLE', 'NOSCRIPT'].includes(element.tagName)) continue;
    if (!shown(element)) continue;
    const range = document.createRange();
    range.selectNodeContents(text);
    for (const rect of range.getClientRects()) {
      if (rect.width < 1 || rect.height < 1) continue;
      texts.push({ element, rect });
      let scrolls = false;
      for (let up = element; up && up !== document.body; up = up.parentElement) {
        const style = getComputedStyle(up);
        const box = up.getBoundingClientRect();
        if (style.overflowX === 'auto' || style.overflowX === 'scroll') {
          scrolls = true;
          if (up.scrollWidth > up.clientWidth + 1 && window.innerWidth >= 1200)
            found.push(`has to be scrolled sideways: ${name(up)}`);
          break;
        }
        const cuts = style.overflowX !== 'visible' || style.overflowY !== 'visible';
        if (cuts && (rect.right > box.right + 1 || rect.left < box.left - 1 ||
                     rect.bottom > box.bottom + 2 || rect.top < box.top - 2))
          found.push(`is cut: ${name(element)} in ${name(up)}`);
      }
      if (!scrolls && (rect.right > page.clientWidth + 1 || rect.left < -1))
        found.push(`is beside the window: ${name(element)}`);
    }
  }
  for (let i = 0; i < texts.length; i += 1)
    for (let j = i + 1; j < texts.length; j += 1) {
      const [a, b] = [texts[i], texts[j]];
      if (a.element.contains(b.element) || b.element.contains(a.element)) continue;
      const wide = Math.min(a.rect.right, b.rect.right) - Math.max(a.rect.left, b.rect.left);
      const high = Math.min(a.rect.bottom, b.rect.bottom) - Math.max(a.rect.top, b.rect.top);
      if (wide > 2 && high > 3)
        found.push(`lies on another: ${name(a.element)} and ${name(b.element)}`);
    }
  return [...new Set(found)].slice(0, 20);
}"""

_SMALL_TARGETS = """(least) => {
  const small = [];
  for (const element of document.querySelectorAll('button, summary, [role="application"]')) {
    const style = getComputedStyle(element);
    const { width, height } = element.getBoundingClientRect();
    if (style.visibility === 'hidden' || width === 0) continue;
    if (width < least - 0.5 || height < least - 0.5)
      small.push(`${element.getAttribute('aria-label') || element.textContent.trim()}: ` +
        `${width} x ${height}`);
  }
  return small;
}"""


def misfits(page: Page) -> list[str]:
    """Say what doesn't fit."""
    found: list[str] = page.evaluate(_MEASURE)
    return found


def small_targets(page: Page, least_px: int = 44) -> list[Any]:
    """Say which buttons are smaller than a finger needs."""
    found: list[Any] = page.evaluate(_SMALL_TARGETS, least_px)
    return found
