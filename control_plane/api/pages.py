"""How do browsers get the pages?

The built pages (``control_plane/console/dist``) are one ``index.html`` for players and viewers, one
``admin.html`` for operators, and hashed assets that may be cached for ever. If they were never
built, a plain text says how to. The content security policy lets a page load only what lies here,
and connect only to us and to the LiveKit server that clients are told of.
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from fastapi import APIRouter
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response

from control_plane.api.bodies import LeanRoute

DIST = Path(__file__).parents[1] / "console" / "dist"

_NOT_BUILT = (
    "The page isn't built yet. Run scripts/demo, or in control_plane/console: npm ci && npm run"
    " build (Node 20 or newer). The API works without it.\n"
)
_FOR_EVER = {"Cache-Control": "public, max-age=31536000, immutable"}
_ASK_AGAIN = {"Cache-Control": "no-cache"}


def page_routes(*, livekit_url: str, dist: Path = DIST) -> APIRouter:
    """Return the routes of ``/``, ``/watch/…``, ``/admin``, ``/docs`` and of their files."""
    router = APIRouter(route_class=LeanRoute, include_in_schema=False)
    policy = content_policy(livekit_url)

    async def start_page(request: Request) -> Response:  # noqa: ARG001
        return _page(dist / "index.html", policy)

    async def watch_page(request: Request, session_id: str) -> Response:  # noqa: ARG001
        return _page(dist / "index.html", policy)

    async def admin_page(request: Request) -> Response:  # noqa: ARG001
        return _page(dist / "admin.html", policy)

    async def docs_page(request: Request) -> Response:  # noqa: ARG001
        return _page(dist / "docs.html", policy)

    async def asset(request: Request, path: str) -> Response:  # noqa: ARG001
        return _file(dist / "assets", path, _FOR_EVER)

    async def file(request: Request, name: str) -> Response:  # noqa: ARG001
        return _file(dist, name, _ASK_AGAIN)

    for path, endpoint in (
        ("/", start_page),
        ("/admin", admin_page),
        ("/watch/{session_id}", watch_page),
        ("/docs", docs_page),
        ("/assets/{path:path}", asset),
        ("/{name}", file),
    ):
        router.add_api_route(path, endpoint, methods=["GET", "HEAD"], response_model=None)
    return router


def _page(index: Path, policy: str) -> Response:
    if not index.is_file():
        return PlainTextResponse(_NOT_BUILT, 503, _ASK_AGAIN)
    return FileResponse(index, headers={**_ASK_AGAIN, "Content-Security-Policy": policy})


def _file(folder: Path, path: str, headers: dict[str, str]) -> Response:
    """Return a file below *folder*; anything else, also by '..' or a link, is not found."""
    target = folder / path
    try:
        target = target.resolve()
        found = target.is_relative_to(folder.resolve()) and target.is_file()
    except (OSError, ValueError):  # no file can have such a name
        found = False
    if not found:
        raise HTTPException(404)
    return FileResponse(target, headers=headers)


def content_policy(livekit_url: str) -> str:
    """Return the content security policy of the pages for a LiveKit server at *livekit_url*."""
    connect = " ".join(("'self'", *_addresses(livekit_url)))
    return "; ".join(
        (
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "font-src 'self'",
            "manifest-src 'self'",
            f"connect-src {connect}",
            "img-src 'self' data: blob:",
            "media-src 'self' blob: mediastream:",
            "worker-src 'self' blob:",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        )
    )


def _addresses(livekit_url: str) -> tuple[str, ...]:
    """Both schemes of one server: signalling is a WebSocket, the check before it plain HTTP."""
    url = urlsplit(livekit_url)
    secure = url.scheme in ("wss", "https")
    schemes = ("wss", "https") if secure else ("ws", "http")
    hosts = [url.netloc]
    if (url.hostname or "").endswith(".livekit.cloud"):
        hosts.append("*.livekit.cloud")  # the cloud sends clients on to the nearest region
    return tuple(f"{scheme}://{host}" for host in hosts for scheme in schemes)
