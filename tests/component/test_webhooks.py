"""What LiveKit tells: whether it's LiveKit, once each, in any order, and only a reason to look."""

from __future__ import annotations

import random

import pytest

from control_plane.app import Replica
from shared.ids import WorkerIdentity, new_session_id
from shared.records import Owner
from shared.rooms.tokens import Role, room_metadata
from shared.states import Reason
from shared.store import Registry
from tests.support.played_node import PlayedNode
from tests.support.redis_server import RawRedis
from tests.support.replica import BeginNode, Client, assert_problem, served, settings_for
from tests.support.room_service import RoomService
from tests.support.wait import wait_until
from tests.support.webhook_events import WEBHOOK, event, signature, tell

Running = tuple[Replica, Client]
SID = "default-" + "a" * 26


async def heard(client: Client, body: bytes) -> str:
    """Tell it and return what became of it."""
    answer = await tell(client, body)
    assert answer.status_code == 200, answer.text
    word: str = answer.json()["heard"]
    return word


async def given_back(registry: Registry, node: PlayedNode, session_id: str) -> WorkerIdentity:
    """Let a node give a session back without anybody's telling its room; returns its worker."""
    epoch = node.holds(session_id).epoch
    owner = Owner(
        node_id=node.node_id, incarnation=node.incarnation, session_id=session_id, epoch=epoch
    )
    del node.residents[session_id]
    await registry.give_back(owner, why="media_lost", capacity=0, media_ok=False)
    return WorkerIdentity(node_id=node.node_id, epoch=epoch, attempt=1)


async def playing(api: Client, node: PlayedNode) -> str:
    """Create a session and let it play."""
    session_id: str = (await api.create()).json()["session_id"]
    await node.play(session_id)
    return session_id


def removed(room_service: RoomService) -> list[str]:
    """Who was put out of a room."""
    return [call.detail for call in room_service.made("RemoveParticipant")]


BODY = event("participant_joined", SID, Role.CONTROLLER)
NOT_LIVEKIT = {
    "nothing": "none",
    "no token": "Basic abc",
    "half a token": signature(BODY)[:-40],
    "another key": signature(BODY, key="otherkey"),
    "another secret": signature(BODY, secret="x" * 40),
    "another body": signature(BODY + b" "),
    "a token that is too old": signature(BODY, ttl_s=-120),
    "a scheme": f"Bearer {signature(BODY)}",
}


@pytest.mark.parametrize("authorization", NOT_LIVEKIT.values(), ids=NOT_LIVEKIT.keys())
async def test_what_isnt_signed_with_our_key_is_refused(api: Client, authorization: str) -> None:
    """One sentence that says what to do; nothing is remembered of it."""
    problem = assert_problem(await tell(api, BODY, authorization), 401, "bad_webhook")
    assert problem["message"] == (
        "This isn't signed with our LiveKit key: let LiveKit's webhook use the same api_key."
    )


async def test_without_any_signature_it_is_refused(replica: Running) -> None:
    """And counted."""
    parts, api = replica
    assert_problem(await api.post(WEBHOOK, content=BODY), 401, "bad_webhook")
    counted = b'greenroom_webhooks_total{outcome="refused"} 1.0'
    assert counted in parts.metrics.render((), redis_up=True, livekit_up=True)


@pytest.mark.parametrize("body", [b"\xff\xfe", b"", b"{", b"null", b'{"event": 5}'])
async def test_a_body_that_is_no_event_is_refused(api: Client, body: bytes) -> None:
    """Though the signature is good: LiveKit never sends that."""
    assert_problem(await tell(api, body), 401, "bad_webhook")


async def test_a_body_without_end_is_refused(api: Client) -> None:
    """Whoever it comes from."""
    assert_problem(await tell(api, b"x" * (1024 * 1024 + 1)), 413, "body_too_large")


async def test_a_worker_of_an_earlier_assignment_is_out_as_soon_as_it_comes(
    replica: Running, begin_node: BeginNode, room_service: RoomService, registry: Registry
) -> None:
    """The session plays elsewhere, or waits: its zombie woke and joined again (R1)."""
    _, api = replica
    old, new = await begin_node(), await begin_node(node_id="node-b", capacity=0)
    session_id = await playing(api, old)
    zombie = await given_back(registry, old, session_id)
    new.capacity = 1
    await new.beat()
    await new.play(session_id)
    worker = WorkerIdentity(node_id="node-b", epoch=new.holds(session_id).epoch, attempt=1)
    for one in (zombie, worker):
        room_service.enter(session_id, one)
    assert await heard(api, event("participant_joined", session_id, zombie)) == "looked"
    await wait_until(lambda: removed(room_service) == [str(zombie)], "the zombie is out")


async def test_an_event_counts_once_whichever_replica_hears_it(
    redis_url: str, room_service: RoomService, raw_redis: RawRedis
) -> None:
    """LiveKit repeats what wasn't answered in time; it is forgotten after ten minutes."""
    settings = settings_for(redis_url, room_service.url)
    async with served(settings) as (_, one), served(settings) as (_, two):
        assert [await heard(client, BODY) for client in (one, two, one)] == [
            "looked",
            "repeated",
            "repeated",
        ]
        other = event("participant_joined", SID, Role.CONTROLLER)
        assert await heard(two, other) == "looked"
    kept = [name for name in raw_redis.keys("*") if ":wh:" in name]
    assert len(kept) == 2
    assert all(0 < raw_redis.ttl(name) <= 600 for name in kept)


@pytest.mark.parametrize(
    "body",
    [
        event("participant_joined", SID),
        event("track_published", SID, Role.CONTROLLER),
        event("room_started", SID),
        event("egress_started", SID),
        event("room_finished", SID, metadata=room_metadata("other")),
        event("room_finished", SID, metadata=""),
        event("room_finished", SID, room="somebody-elses"),
        event("room_finished", "other-" + "a" * 26),
    ],
)
async def test_what_changes_nothing_is_ignored(
    api: Client, body: bytes, raw_redis: RawRedis
) -> None:
    """Tracks, rooms of others, pools that aren't served here: not even remembered."""
    assert await heard(api, body) == "ignored"
    assert [name for name in raw_redis.keys("*") if ":wh:" in name] == []


async def test_the_room_of_an_ended_session_goes_when_somebody_comes(
    api: Client, room_service: RoomService
) -> None:
    """A page that was left open made it anew."""
    session_id: str = (await api.create()).json()["session_id"]
    await api.stop(session_id)
    await wait_until(lambda: room_service.made("DeleteRoom"), "the room goes with its session")
    room_service.calls.clear()
    room_service.seat(session_id, "alice")
    await heard(api, event("participant_joined", session_id, Role.CONTROLLER))
    await wait_until(lambda: room_service.made("DeleteRoom"), "it goes again")


async def test_the_room_of_a_session_that_nobody_knows_is_left_alone(
    replica: Running, room_service: RoomService
) -> None:
    """The registry may have lost it (R3)."""
    parts, api = replica
    session_id = new_session_id("default")
    room_service.seat(session_id, "alice")
    await heard(api, event("participant_joined", session_id, Role.CONTROLLER))
    await chores_done(parts, "look_into_room")
    assert room_service.calls == []


async def test_coming_into_the_room_is_a_sign_of_life_of_who_waits(
    replica: Running, room_service: RoomService, raw_redis: RawRedis
) -> None:
    """The event alone isn't: the controller must be there when somebody looks."""
    parts, api = replica
    session_id: str = (await api.create()).json()["session_id"]
    record = f"gr:{{default}}:s:{session_id}"
    ends = raw_redis.hget(record, "t_queued")
    raw_redis.hset(record, "d_queued", 600_000)
    await heard(api, event("participant_joined", session_id, Role.CONTROLLER))
    await chores_done(parts, "look_into_room")
    assert raw_redis.hget(record, "t_queued") == ends
    room_service.seat(session_id, "alice")
    await heard(api, event("participant_joined", session_id, Role.CONTROLLER))
    await wait_until(lambda: raw_redis.hget(record, "t_queued") != ends, "the lease begins anew")


async def test_viewers_are_counted_and_nothing_else_follows(
    replica: Running, room_service: RoomService, raw_redis: RawRedis
) -> None:
    """No sign of life of whoever waits, in GET and in the list."""
    _, api = replica
    session_id: str = (await api.create()).json()["session_id"]
    record = f"gr:{{default}}:s:{session_id}"
    raw_redis.hset(record, "d_queued", 600_000)
    before = raw_redis.hgetall(record)
    for name in ("vera", "viktor"):
        room_service.seat(session_id, name, "viewer")
    await heard(api, event("participant_joined", session_id, Role.VIEWER))
    await wait_until(lambda: raw_redis.hget(record, "participants") == "2", "they are counted")
    assert raw_redis.hgetall(record) == before | {"participants": "2"}
    assert (await api.look(session_id)).json()["participant_count"] == 2
    (row,) = (await api.get("/v1/stream/sessions")).json()["sessions"]
    assert row["participant_count"] == 2


async def test_people_who_come_where_a_worker_is_are_its_business(
    replica: Running, begin_node: BeginNode, room_service: RoomService, registry: Registry
) -> None:
    """A thousand viewers cost LiveKit no question, and what the worker counts stays."""
    parts, api = replica
    session_id = await playing(api, await begin_node())
    room_service.seat(session_id, "vera", "viewer")
    room_service.asked.clear()
    for role in (Role.VIEWER, Role.CONTROLLER):
        await heard(api, event("participant_joined", session_id, role))
    await chores_done(parts, "look_into_room")
    assert room_service.asked == []
    assert (await registry.read(session_id)).participants == 1


@pytest.mark.parametrize("seed", range(4))
async def test_the_order_of_events_means_nothing(
    replica: Running,
    begin_node: BeginNode,
    room_service: RoomService,
    registry: Registry,
    seed: int,
) -> None:
    """Left before joined, some twice, some never: the room is as the record says it should be."""
    _, api = replica
    node = await begin_node()
    session_id = await playing(api, node)
    zombie = await given_back(registry, node, session_id)
    room_service.enter(session_id, zombie)
    room_service.seat(session_id, "alice")
    told = [
        event("participant_left", session_id, zombie),
        event("participant_joined", session_id, zombie),
        event("participant_joined", session_id, Role.CONTROLLER),
        event("participant_left", session_id, Role.CONTROLLER),
        event("room_finished", session_id),
    ]
    order = random.Random(seed)
    for body in order.sample(told + told, k=order.randint(1, 8)):
        await heard(api, body)
    await wait_until(lambda: set(removed(room_service)) == {str(zombie)}, "the zombie is out")
    await wait_until(lambda: room_service.made("SendData"), "who is there knows that it waits")
    assert len(room_service.made("SendData")) == 1
    assert room_service.made("DeleteRoom") == []
    record = await registry.read(session_id)
    assert (record.state, record.attempt) == ("queued", 2)


async def test_a_livekit_that_tells_and_doesnt_answer_does_no_harm(
    replica: Running, room_service: RoomService
) -> None:
    """The event is taken; the look fails and is counted, and nothing else happens."""
    parts, api = replica
    session_id: str = (await api.create()).json()["session_id"]
    room_service.down = True
    assert await heard(api, event("room_finished", session_id)) == "looked"
    await chores_done(parts, "look_into_room", outcome="failed")
    assert (await api.look(session_id)).json()["status"] == "queued"


async def test_without_redis_livekit_is_asked_to_tell_it_again(
    start_redis: object, room_service: RoomService
) -> None:
    """503, which it repeats for a while; then nothing was missed."""
    server = start_redis("--appendonly", "yes")  # type: ignore[operator]
    async with served(settings_for(server.url, room_service.url)) as (_, api):
        server.kill()
        assert_problem(await tell(api, BODY), 503, "store_unavailable")
        server.start()

        async def is_taken() -> bool:
            return (await tell(api, BODY)).status_code == 200

        await wait_until(is_taken, "it is taken", timeout_s=10)


async def test_a_session_that_ended_meanwhile_is_no_fault(
    replica: Running, registry: Registry, room_service: RoomService
) -> None:
    """What was true when it was told is history when somebody looks."""
    parts, api = replica
    session_id: str = (await api.create()).json()["session_id"]
    await registry.cancel(session_id, Reason.ADMIN)
    await heard(api, event("participant_left", session_id, Role.CONTROLLER))
    await chores_done(parts, "look_into_room")
    assert (await registry.read(session_id)).reason is Reason.ADMIN


async def chores_done(parts: Replica, chore: str, *, outcome: str = "done") -> None:
    """Wait until a chore of this kind came out so."""
    line = f'greenroom_room_chores_total{{chore="{chore}",outcome="{outcome}"}}'.encode()
    await wait_until(
        lambda: line in parts.metrics.render((), redis_up=True, livekit_up=True),
        f"{chore} is {outcome}",
    )
