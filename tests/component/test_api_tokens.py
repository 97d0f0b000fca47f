"""POST …/tokens: viewers come in, the controller gets a fresh token."""

from __future__ import annotations

import httpx
import pytest

from tests.support.replica import SESSIONS, BeginNode, Client, assert_problem


async def ask(api: Client, session_id: str, bearer: str = "", **body: str) -> httpx.Response:
    """Ask for a token, with a session token if the test has one."""
    headers = {"Authorization": f"Bearer {bearer}"} if bearer else {}
    return await api.post(f"{SESSIONS}/{session_id}/tokens", json=body, headers=headers)


@pytest.fixture
async def created(api: Client) -> dict[str, str]:
    """Alice's session, waiting in line."""
    answer: dict[str, str] = (await api.create()).json()
    return answer


async def test_a_viewer_gets_a_token(api: Client, created: dict[str, str]) -> None:
    """200 with everything that is needed to join."""
    answer = await ask(api, created["session_id"], identity="bob", role="viewer")

    token = answer.json()
    assert answer.status_code == 200
    assert set(token) == {"session_id", "room", "livekit_url", "token", "role"}
    assert token["role"] == "viewer"
    assert token["room"] == created["room"]


async def test_viewer_is_the_default_role(api: Client, created: dict[str, str]) -> None:
    """A body with only an identity asks for a viewer's token."""
    assert (await ask(api, created["session_id"], identity="bob")).json()["role"] == "viewer"


@pytest.mark.parametrize("identity", ["alice", "telefuser-node-a-1-1"])
async def test_a_viewer_cannot_take_a_name_that_is_taken(
    api: Client, created: dict[str, str], identity: str
) -> None:
    """422 for the controller's name and for workers' names."""
    answer = await ask(api, created["session_id"], identity=identity)

    assert_problem(answer, 422, "reserved_identity")


@pytest.mark.parametrize(
    "body",
    [{}, {"identity": ""}, {"identity": "b" * 300}, {"identity": "bob", "role": "worker"}],
    ids=["no name", "empty name", "endless name", "another role"],
)
async def test_a_wrong_token_request_is_refused(
    api: Client, created: dict[str, str], body: dict[str, str]
) -> None:
    """422 for a missing, empty or endless name and for another role."""
    assert_problem(await ask(api, created["session_id"], **body), 422, "invalid_request")


async def test_an_ended_session_gives_no_token(api: Client, created: dict[str, str]) -> None:
    """409 with the compatible text, for the viewer and the controller."""
    session_id = created["session_id"]
    await api.stop(session_id)

    viewer = await ask(api, session_id, identity="bob")
    controller = await ask(api, session_id, created["session_token"], role="controller")

    for answer in (viewer, controller):
        problem = assert_problem(answer, 409, "session_ended")
        assert problem["detail"] == f"Session {session_id} is not active"
        assert "client_stop" in str(problem["message"])


async def test_the_controller_renews_its_token(
    api: Client, created: dict[str, str], begin_node: BeginNode
) -> None:
    """The session token opens it, as often as it takes, whatever the state."""
    session_id = created["session_id"]
    waiting = await ask(api, session_id, created["session_token"], role="controller")
    node = await begin_node()
    await api.create(identity="bob")  # its dispatch serves the head of the line, alice
    await node.play(session_id)
    running = await ask(
        api, session_id, created["session_token"], role="controller", identity="alice"
    )

    for answer in (waiting, running):
        assert answer.status_code == 200
        assert answer.json()["role"] == "controller"
        assert answer.json()["token"].count(".") == 2


async def test_renewal_needs_the_sessions_own_token(api: Client, created: dict[str, str]) -> None:
    """403 without a token, with a forged one, and with another session's."""
    other = (await api.create(identity="bob")).json()["session_token"]

    for bearer in ("", "nonsense", created["session_token"] + "x", other):
        answer = await ask(api, created["session_id"], bearer, role="controller")
        assert_problem(answer, 403, "bad_session_token")


async def test_renewal_does_not_change_the_controller(api: Client, created: dict[str, str]) -> None:
    """422 for another identity than the one that the session was created with."""
    answer = await ask(
        api, created["session_id"], created["session_token"], role="controller", identity="bob"
    )

    assert_problem(answer, 422, "reserved_identity")
