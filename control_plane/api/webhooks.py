"""How does LiveKit tell us what happens in our rooms?

It posts signed events. The signature is of the raw body, so nothing is parsed before it's checked;
what isn't signed with our key ends in 401.
"""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from control_plane.api.answers import json_answer
from control_plane.api.bodies import LeanRoute, WebhookHeard
from control_plane.webhooks import Webhooks
from shared.errors import BadWebhook, BodyTooLarge
from shared.rooms.webhooks import WEBHOOK_PATH, WebhookReader

MAX_EVENT_BYTES = 1024 * 1024


def webhook_routes(*, reader: WebhookReader, webhooks: Webhooks) -> APIRouter:
    """Return the route of ``/v1/livekit/webhook``."""
    router = APIRouter(route_class=LeanRoute, tags=["livekit"])

    @router.post(WEBHOOK_PATH, responses={200: {"model": WebhookHeard}})
    async def hear(request: Request) -> Response:
        """Take one event of the LiveKit server; it is only a reason to look."""
        body = await request.body()
        if len(body) > MAX_EVENT_BYTES:
            raise BodyTooLarge(limit_bytes=MAX_EVENT_BYTES)
        try:
            news = reader.read(body, request.headers.get("authorization", ""))
        except BadWebhook:
            webhooks.refuse()
            raise
        answer: WebhookHeard = {"heard": await webhooks.hear(news)}
        return json_answer(answer)

    return router
