"""The page of the API: readable where nothing else can be reached."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, Request, Route, expect

from control_plane.api.pages import DIST
from tests.support.replica_process import Start
from tests.support.wait import scaled_s


def test_the_api_can_be_read_and_tried_out_offline(
    browser: Browser, redis_url: str, start_replica: Start
) -> None:
    """Each call with its shapes and problems; nothing is fetched from elsewhere, nothing breaks."""
    if not (DIST / "docs.html").is_file():
        pytest.skip("the page isn't built (npm ci && npm run build in control_plane/console)")
    address = start_replica().address()
    context = browser.new_context()
    page = context.new_page()
    complaints: list[str] = []
    foreign: list[str] = []

    def only_ours(route: Route, request: Request) -> None:
        if request.url.startswith((address, "data:", "blob:")):
            route.continue_()
        else:
            foreign.append(request.url)
            route.abort()

    context.route("**/*", only_ours)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda told: complaints.append(told.text) if told.type == "error" else None)
    page.goto(f"{address}/docs")
    create = page.locator("#operations-sessions-create_session_v1_stream_sessions_post")
    expect(create).to_be_visible(timeout=scaled_s(20) * 1000)
    create.locator(".opblock-summary-control").click()
    expect(create).to_contain_text("idempotency_mismatch")
    expect(create).to_contain_text('"identity": "ada"')
    health = page.locator("#operations-health-stream_health_v1_stream_health_get")
    health.locator(".opblock-summary-control").click()
    health.get_by_role("button", name="Try it out").click()
    health.get_by_role("button", name="Execute").click()
    expect(health.locator(".live-responses-table")).to_contain_text("redis_connected")

    assert foreign == []
    assert complaints == []
    context.close()
