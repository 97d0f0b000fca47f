"""Does anything secret ever stand where it doesn't belong?

One whole life of a session in a real process, with every kind of mistake on the way; then all that
was written anywhere is searched: logs, numbers, errors, what was said into rooms, and all of Redis.
"""

from __future__ import annotations

import base64
import json
import signal
from dataclasses import dataclass

import httpx
import pytest_asyncio

from shared.access_keys import Scope
from shared.store import Registry
from tests.support.closed import ADMIN_KEY, add_key, bearer
from tests.support.key_dump import read_all
from tests.support.played_node import PlayedNode
from tests.support.redis_server import RawRedis
from tests.support.replica import API_SECRET, SESSIONS, BeginNode
from tests.support.replica_process import Start
from tests.support.room_service import RoomService
from tests.support.wait import wait_until
from tests.support.webhook_events import WEBHOOK

SESSION_SECRET = "the-secret-that-signs-session-tokens"
IDENTITY, PROMPT = "vera-who-is-nobody-s-business", "a-prompt-that-is-private"
CREATE = {"identity": IDENTITY, "prompt": PROMPT, "config": {"seed": 7}}


class Traces:
    """Everything that a client was told, apart by whether a token belongs into it."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client
        self.errors: list[str] = []
        self.heads: list[str] = []

    async def call(
        self, method: str, path: str, credential: str = "", **more: object
    ) -> httpx.Response:
        """Make a call; keep the answer's head, and its body if it is an error.

        Whoever writes a secret into an address gets it back in the answer, and nobody else does.
        """
        headers = bearer(credential) if credential else {}
        answer = await self._client.request(method, path, headers=headers, **more)  # type: ignore[arg-type]
        self.heads.append(str(dict(answer.headers)))
        if answer.status_code >= 400 and "gst1" not in path and "grk_" not in path:
            self.errors.append(answer.text)
        return answer


@dataclass(slots=True, kw_only=True)
class Life:
    """One life of a session, and everything that was written meanwhile."""

    secrets: list[str]
    tokens: list[str]
    rooms: list[object]
    """What each room token says of its room."""
    public: dict[str, str]
    """What others than the session's own client may see, by where it stands."""


@pytest_asyncio.fixture
async def life(
    start_replica: Start, room_service: RoomService, registry: Registry, begin_node: BeginNode
) -> Life:
    """One session plays and one waits; then all ends, and so does the replica."""
    replica = start_replica(
        LIVEKIT_URL=room_service.url,
        ADMIN_KEY=ADMIN_KEY,
        SESSION_SECRET=SESSION_SECRET,
        QUEUE_SIZE="9",
    )
    key = await add_key(registry, Scope.CREATE)
    async with httpx.AsyncClient(base_url=replica.address(), timeout=20) as client:
        traces = Traces(client)
        tokens, told, numbers = await _live(traces, key, await begin_node())
    replica.signal(signal.SIGTERM)
    _, complaints = replica.result()
    rooms = [_claims(token) for token in tokens if token.startswith("ey")]
    return Life(
        secrets=[ADMIN_KEY, key, key.rsplit("_", 1)[1], API_SECRET, SESSION_SECRET, *tokens],
        tokens=tokens,
        rooms=rooms,
        public={
            "the log": "".join(replica.said) + complaints,
            "the numbers": numbers,
            "errors": "\n".join(traces.errors),
            "heads of answers": "\n".join(traces.heads),
            "what many may read": told,
            "rooms": f"{room_service.told} {room_service.calls} {rooms}",
        },
    )


async def _live(traces: Traces, key: str, node: PlayedNode) -> tuple[list[str], str, str]:
    """Live it; return all tokens, what is told in lists, and the numbers."""

    async def created() -> httpx.Response | None:
        answer = await traces.call("POST", SESSIONS, key, json=CREATE)
        return answer if answer.status_code == 200 else None

    first = await wait_until(created, "the replica takes sessions")
    assert first is not None
    playing = first.json()
    waiting = (await traces.call("POST", SESSIONS, key, json=CREATE)).json()
    session, token = f"{SESSIONS}/{playing['session_id']}", playing["session_token"]
    await node.play(playing["session_id"])
    watcher = await traces.call("POST", f"{session}/tokens", token, json={"identity": "v"})
    again = await traces.call("POST", f"{session}/tokens", token, json={"role": "controller"})
    await _mistakes(traces, session, playing, waiting, key)
    await node.retire()
    await traces.call("DELETE", session, token)
    await traces.call("DELETE", f"/v1/queue/{waiting['session_id']}", ADMIN_KEY)
    told = (await traces.call("GET", SESSIONS, ADMIN_KEY)).text
    numbers = (await traces.call("GET", "/metrics", ADMIN_KEY)).text
    for what in OPEN:
        told += (await traces.call("GET", f"/v1/service/{what}")).text
    tokens = [playing["token"], token, waiting["token"], waiting["session_token"]]
    return [*tokens, watcher.json()["token"], again.json()["token"]], told, numbers


async def test_no_secret_and_no_token_is_written_anywhere(life: Life, raw_redis: RawRedis) -> None:
    """Nor who somebody is and what was asked for, but in the session's own record."""
    kept = str(read_all(raw_redis))
    assert life.public["errors"].count("\n") > 10
    assert "admin_act" in life.public["the log"]
    assert "session_id" in life.public["what many may read"]
    assert "greenroom_admissions_total" in life.public["the numbers"]
    assert len(life.rooms) == 4
    assert IDENTITY in kept
    signatures = [token.rsplit(".", 1)[1] for token in life.tokens]
    for where, text in (life.public | {"Redis": kept}).items():
        for secret in (*life.secrets, *signatures):
            assert secret not in text, f"{secret[:9]}… stands in {where}"
    for where, text in life.public.items():
        for private in (IDENTITY, PROMPT):
            assert private not in text, f"{private} stands in {where}"


OPEN = ("health", "ready", "metadata")


async def _mistakes(
    traces: Traces, session: str, playing: dict[str, str], waiting: dict[str, str], key: str
) -> None:
    """Show everything to whom it doesn't belong, and send nonsense with it."""
    token, other = playing["session_token"], waiting["session_token"]
    for wrong in (other, token[:-1], key[:-1], playing["token"], SESSION_SECRET, API_SECRET):
        await traces.call("GET", session, wrong)
        await traces.call("GET", SESSIONS, wrong)
    for credential in (token, key):
        await traces.call("GET", SESSIONS, credential)
        await traces.call("GET", f"{SESSIONS}/{credential}", ADMIN_KEY)
        await traces.call("GET", f"/v1/{credential}?key={credential}")
        await traces.call("POST", SESSIONS, key, json={"identity": 7, "prompt": credential})
        await traces.call("POST", SESSIONS, key, json={**CREATE, "pool": credential[:30]})
        await traces.call("POST", SESSIONS, key, content=f'{{"identity": "{credential}')
        await traces.call("POST", WEBHOOK, credential, content=credential)
        await traces.call("GET", f"{SESSIONS}?cursor={credential}", ADMIN_KEY)


def _claims(token: str) -> object:
    """Return what a room token says of its room; it is signed and not encrypted."""
    part = token.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))["roomConfig"]
