"""Which calls go straight to their endpoint, past the framework?

Those whose cost counts: in the framework's layers a create call would spend as much as in all the
rest that happens here. The endpoint is the very same, and so are the answers to errors; a test asks
both ways. Whatever else comes, also the same path by another method, takes the long way.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from fastapi import APIRouter
from fastapi.routing import APIRoute
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from control_plane.api import problems
from shared.errors import GreenroomError

Endpoint = Callable[[Request], Awaitable[Response]]


class ShortCut:
    """A layer around the framework; with *cors*, calls of pages from elsewhere don't take it."""

    def __init__(
        self, app: ASGIApp, endpoints: dict[tuple[str, str], Endpoint], *, cors: bool
    ) -> None:
        self._app = app
        self._endpoints = endpoints
        self._cors = cors

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        endpoint = None
        if scope["type"] == "http":
            endpoint = self._endpoints.get((scope["method"], scope["path"]))
        if endpoint is None or (self._cors and _comes_from_a_page(scope)):
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        try:
            answer = await endpoint(request)
        except GreenroomError as refused:
            answer = await problems.on_error(request, refused)
        except ClientDisconnect as gone:
            answer = await problems.on_client_gone(request, gone)
        except Exception as bug:
            await (await problems.on_bug(request, bug))(scope, receive, send)
            raise  # for the server's log
        await answer(scope, receive, send)


def endpoint_of(router: APIRouter, method: str, path: str) -> Endpoint:
    """Return the endpoint of a `LeanRoute` whose path has no parameters; raises `LookupError`."""
    for route in router.routes:
        if isinstance(route, APIRoute) and route.path == path and method in (route.methods or ()):
            endpoint: Endpoint = route.endpoint
            return endpoint
    raise LookupError(f"{method} {path}")


def _comes_from_a_page(scope: Scope) -> bool:
    return any(name == b"origin" for name, _ in scope["headers"])
