"""What can somebody do who has only what a viewer, another player or another tenant has?

The all-in-one as the README starts it, reachable for others and so closed. Whoever attacks knows
the API's own description, the victim's session id and room, and holds a token of its own; every
path of the description is tried with it, so that a route which is added later is tried as well.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.all_in_one import AllInOne, all_in_one, greenroom
from tests.support.closed import bearer
from tests.support.live_person import LivePerson
from tests.support.wait import wait_until, wait_until_sync

pytestmark = pytest.mark.timeout(180)

SESSIONS = "/v1/stream/sessions"
OPEN = {
    ("GET", "/v1/stream/health"),
    ("GET", "/v1/service/health"),
    ("GET", "/v1/service/ready"),
    ("GET", "/v1/service/metadata"),
    ("POST", "/v1/livekit/webhook"),  # checks a signature of its own
}
"""All that is for everybody. What is added here must tell nothing of anybody."""
CREATE = ("POST", SESSIONS)
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A closed system with a victim on it, and what the attackers hold."""

    stack: AllInOne
    client: httpx.Client
    admin: str
    victim: dict[str, Any]
    viewer: str
    """The victim's viewer: a token of the room."""
    attackers: dict[str, str]

    def ask(self, method: str, path: str, credential: str = "", **more: Any) -> httpx.Response:
        """Make one call."""
        headers = bearer(credential) if credential else {}
        return self.client.request(method, path, headers=headers, **more)

    def victims_state(self) -> dict[str, Any]:
        """How the victim's session stands, as the admin sees it."""
        answer = self.ask("GET", f"{SESSIONS}/{self.victim['session_id']}", self.admin)
        state: dict[str, Any] = answer.json()
        return {name: state[name] for name in ("status", "attempt", "epoch", "reason")}


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """The all-in-one that others can reach, and two tenants."""
    folder = tmp_path_factory.mktemp("stack")
    with (
        all_in_one(folder, "--host", "0.0.0.0", "--queue-size", "9") as stack,
        httpx.Client(base_url=stack.url, timeout=20) as client,
    ):
        (admin,) = re.findall(r"grk_admin_\S+", stack.output)
        keys = [_key(stack, name) for name in ("victims", "attackers")]

        def created(key: str, identity: str) -> dict[str, Any]:
            answer = client.post(SESSIONS, json={"identity": identity}, headers=bearer(key))
            assert answer.status_code in (200, 202), answer.text
            body: dict[str, Any] = answer.json()
            return body

        victim = created(keys[0], "alice")
        path = f"{SESSIONS}/{victim['session_id']}/tokens"
        watching = client.post(
            path, json={"identity": "vera"}, headers=bearer(victim["session_token"])
        ).json()["token"]
        own = created(keys[1], "mallory")
        signature = own["session_token"].rsplit(".", 1)[1]
        yield Stage(
            stack=stack,
            client=client,
            admin=admin,
            victim=victim,
            viewer=watching,
            attackers={
                "nobody": "",
                "a viewer": watching,
                "another player": own["session_token"],
                "another player's room token": own["token"],
                "another tenant": keys[1],
                "a forger": f"gst1.{victim['session_id']}.{signature}",
            },
        )


def _key(stack: AllInOne, name: str) -> str:
    told = greenroom(
        "keys", "add", name, "--scope", "create", "--json", "--data-dir", stack.data_dir,
        cwd=stack.folder,
    )  # fmt: skip
    assert told.returncode == 0, told.stderr
    return str(json.loads(told.stdout)["key"])


def test_no_path_of_the_api_lets_a_stranger_in(stage: Stage) -> None:
    """With any method, whether or not the path has one; the victim's session stays as it is."""
    before = stage.victims_state()
    document = stage.ask("GET", "/openapi.json").json()
    tried = 0
    for template in document["paths"]:
        path = template.replace("{session_id}", stage.victim["session_id"])
        path = re.sub(r"\{\w+\}", str(stage.victim["worker_id"] or "node"), path)
        for method in METHODS:
            if (method, template) in OPEN:
                continue
            for who, credential in stage.attackers.items():
                if (method, template) == CREATE and who == "another tenant":
                    continue
                body = {"identity": "mallory", "role": "controller", "admin": "draining"}
                answer = stage.ask(method, path, credential, json=body)
                assert answer.status_code in (401, 403, 405, 429), (
                    f"{who}: {method} {path} answers {answer.status_code} {answer.text[:200]}"
                )
                assert stage.victim["session_token"] not in answer.text
                tried += 1
    assert tried > 100
    assert stage.victims_state() == before


def test_what_is_open_tells_nothing_of_anybody(stage: Stage) -> None:
    """Neither a session's id nor who plays."""
    for method, path in OPEN:
        text = stage.ask(method, path).text
        assert stage.victim["session_id"] not in text
        assert "alice" not in text


@pytest.mark.parametrize("trick", ["query", "double", "basic", "cookie", "forwarded", "method"])
def test_no_trick_with_the_request_helps(stage: Stage, trick: str) -> None:
    """A right key in the wrong place is none, and nobody is believed who says that he is local."""
    key = stage.admin
    tricks: dict[str, tuple[str, dict[str, str]]] = {
        "query": (f"?token={key}&access_token={key}&key={key}", {}),
        "double": ("", {"X-Api-Key": key, "Proxy-Authorization": f"Bearer {key}"}),
        "basic": ("", {"Authorization": f"Basic {key}"}),
        "cookie": ("", {"Cookie": f"authorization=Bearer {key}; token={key}"}),
        "forwarded": (
            "",
            {"X-Forwarded-For": "127.0.0.1", "Host": "127.0.0.1", "X-Real-IP": "::1"},
        ),
        "method": ("", {"X-HTTP-Method-Override": "GET", "X-Original-URL": "/v1/stream/health"}),
    }
    suffix, headers = tricks[trick]
    for path in (SESSIONS, "/v1/queue", f"{SESSIONS}/{stage.victim['session_id']}"):
        answer = stage.client.get(path + suffix, headers=headers)
        assert answer.status_code == 401, answer.text


@pytest.mark.parametrize(
    "path",
    [
        "/v1/stream/health/../sessions",
        "/assets/../v1/stream/sessions",
        "//v1/stream/sessions",
        "/v1/stream/sessions/",
        "/V1/stream/sessions",
        "/v1/stream/sessions;a=b",
        "/v1/stream/sessions%2F",
        "/v1%2fstream%2fsessions",
        "http://127.0.0.1/v1/stream/sessions",
    ],
)
def test_no_spelling_of_a_path_gets_past_its_guard(stage: Stage, path: str) -> None:
    """Sent as it stands, which no client of good manners does."""
    status, text = _raw(stage, path)
    assert status in (307, 400, 401, 404, 405, 422), (status, text)
    assert stage.victim["session_id"] not in text


@pytest.mark.parametrize(
    "path",
    [
        "/../../../../../../etc/passwd",
        "/assets/../../../../../../../../etc/passwd",
        "/assets/%2e%2e/%2e%2e/%2e%2e/%2e%2e/%2e%2e/%2e%2e/etc/passwd",
        "/assets/..%2f..%2f..%2f..%2f..%2f..%2f..%2fetc%2fpasswd",
        "/assets//etc/passwd",
        "/assets/%2fetc%2fpasswd",
        "/assets/..%5c..%5c..%5cetc%5cpasswd",
        "/%2e%2e%2fpackage.json",
        "/assets/%00/etc/passwd",
        "/watch/..%2f..%2fetc%2fpasswd",
    ],
)
def test_no_file_of_the_host_can_be_read(stage: Stage, path: str) -> None:
    """However the path is spelled."""
    status, text = _raw(stage, path)
    assert "root:" not in text
    assert "devDependencies" not in text
    assert status in (200, 400, 404, 503)


def test_a_room_token_rules_no_room(stage: Stage) -> None:
    """LiveKit's own API is closed for it: nobody is listed, removed or told anything."""
    livekit = stage.victim["livekit_url"].replace("ws", "http", 1)
    room = stage.victim["room"]
    calls: dict[str, dict[str, object]] = {
        "ListRooms": {},
        "DeleteRoom": {"room": room},
        "ListParticipants": {"room": room},
        "RemoveParticipant": {"room": room, "identity": "alice"},
        "UpdateParticipant": {
            "room": room,
            "identity": "vera",
            "permission": {"can_publish": True, "can_publish_data": True},
        },
        "SendData": {"room": room, "data": "e30=", "kind": 0},
        "UpdateRoomMetadata": {"room": room, "metadata": "{}"},
    }
    for name, body in calls.items():
        answer = httpx.post(
            f"{livekit}/twirp/livekit.RoomService/{name}", json=body, headers=bearer(stage.viewer)
        )
        assert answer.status_code in (401, 403), f"{name}: {answer.status_code} {answer.text}"


async def test_a_viewer_sees_and_steers_nothing(stage: Stage) -> None:
    """The controller plays on, whatever the viewer says in the room."""
    alice, vera = LivePerson(), LivePerson()
    url = stage.victim["livekit_url"]
    await alice.enter(url, stage.victim["token"])
    try:
        await wait_until(lambda: alice.frames, "the victim plays", 60)
        await vera.enter(url, stage.viewer)
        await wait_until(lambda: vera.frames, "the viewer watches", 30)
        for message in ({"type": "stop"}, {"type": "control", "control": {"forward": True}}):
            await asyncio.wait_for(vera.say(message), 20)
        await alice.say({"type": "nonsense", "seq": 7})
        await wait_until(
            lambda: alice.of_type("control_rejected"), "the controller's own word is heard", 20
        )
        seen = len(alice.frames)
        await wait_until(lambda: len(alice.frames) > seen + 5, "the world goes on", 30)
        assert stage.victims_state()["status"] == "running"
        assert not vera.room.local_participant.permissions.can_publish_data
    finally:
        await alice.leave()
        await vera.leave()


def test_a_revoked_key_is_out_and_the_admin_s_stays(stage: Stage) -> None:
    """With the README's words alone: made, used, revoked, refused."""
    key = _key(stage.stack, "short-lived")
    made = stage.ask("POST", SESSIONS, key, json={"identity": "bob"})
    assert made.status_code in (200, 202)
    key_id = key.split("_")[1]
    told = greenroom(
        "keys", "revoke", key_id, "--data-dir", stage.stack.data_dir, cwd=stage.stack.folder
    )
    assert told.returncode == 0, told.stderr
    path = f"{SESSIONS}/{made.json()['session_id']}"
    wait_until_sync(
        lambda: stage.ask("GET", path, key).status_code == 401, "the revoked key is refused", 15
    )
    assert stage.ask("GET", path, made.json()["session_token"]).status_code == 200
    assert stage.ask("GET", path, stage.admin).status_code == 200


def _raw(stage: Stage, path: str) -> tuple[int, str]:
    """Send a path as it stands; clients would tidy it up."""
    connection = http.client.HTTPConnection("127.0.0.1", stage.stack.port, timeout=20)
    try:
        connection.putrequest("GET", path, skip_host=False)
        connection.endheaders()
        answer = connection.getresponse()
        return answer.status, answer.read().decode(errors="replace")
    finally:
        connection.close()


def test_the_node_holds_no_key_of_the_replica_s(tmp_path: Path) -> None:
    """A model's process needs none, so none can leak from it."""
    key = "grk_admin_" + "n0de" * 8
    with all_in_one(tmp_path, "--admin-key", key) as stack:
        environments = {
            name: next(
                found.environ() for found in stack.processes() if found.pid == stack.pid(name)
            )
            for name in ("replica", "node")
        }
    assert environments["replica"]["GREENROOM_ADMIN_KEY"] == key
    assert key not in environments["node"].values()
