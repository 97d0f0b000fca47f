"""What the edge checks before any route, and what it puts on every answer."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from tests.support.replica import SESSIONS, Client, assert_problem, served, settings_for
from tests.support.room_service import RoomService

HEALTH = "/v1/stream/health"


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:8088", "127.0.0.1:8088", "[::1]:8088", "LOCALHOST"]
)
async def test_this_machines_names_are_answered(api: Client, host: str) -> None:
    """However a person on this machine writes it."""
    assert (await api.get(HEALTH, headers={"Host": host})).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8088", "127.0.0.1.evil.example", "localhost.evil", "[x"]
)
async def test_a_rebound_name_is_refused(api: Client, host: str) -> None:
    """403: a page that points its own name at this machine reads nothing."""
    assert_problem(await api.get(HEALTH, headers={"Host": host}), 403, "foreign_host")


async def test_a_replica_for_others_answers_to_any_name(
    redis_url: str, room_service: RoomService
) -> None:
    """Behind a load balancer it can't know its names."""
    settings = settings_for(redis_url, room_service.url, host="0.0.0.0", no_auth=True)
    async with served(settings) as (_, api):
        answer = await api.get(HEALTH, headers={"Host": "stage.example"})

    assert answer.status_code == 200


@pytest.mark.parametrize(
    "headers", [{"Host": "stage.example"}, {"X-Forwarded-For": "192.0.2.7"}, {"Via": "1.1 proxy"}]
)
async def test_who_opens_a_replica_on_purpose_lets_a_proxy_in(
    redis_url: str, room_service: RoomService, headers: dict[str, str]
) -> None:
    """With --no-auth also the one that listens on this machine alone does what it was told."""
    async with served(settings_for(redis_url, room_service.url, no_auth=True)) as (_, api):
        assert (await api.get(HEALTH, headers=headers)).status_code == 200


OWN = "http://127.0.0.1:8088"
FOREIGN = "https://evil.example"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 202),
        ({"Origin": OWN}, 202),
        ({"Origin": OWN, "Sec-Fetch-Site": "same-origin"}, 202),
        ({"Sec-Fetch-Site": "none"}, 202),
        ({"Origin": FOREIGN}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://[::1"}, 403),
        ({"Origin": "http://[x]"}, 403),
        ({"Origin": "http://127.0.0.1:8088:1"}, 403),
        ({"Origin": FOREIGN, "Sec-Fetch-Site": "cross-site"}, 403),
        ({"Origin": "http://127.0.0.1:9999", "Sec-Fetch-Site": "same-site"}, 403),
    ],
)
async def test_only_our_own_pages_may_change_something(
    api: Client, headers: dict[str, str], status: int
) -> None:
    """A foreign page's POST is refused before it takes a slot; a program's is not."""
    answer = await api.post(SESSIONS, json={"identity": "alice"}, headers=headers)

    assert answer.status_code == status


async def test_a_foreign_page_gets_no_permission_to_read(api: Client) -> None:
    """No CORS header is ever sent unless an operator named the origin."""
    preflight = {"Origin": FOREIGN, "Access-Control-Request-Method": "POST"}

    asked = await api.options(SESSIONS, headers=preflight)
    read = await api.get(HEALTH, headers={"Origin": FOREIGN})

    assert "access-control-allow-origin" not in {*asked.headers, *read.headers}


async def test_a_named_origin_may_call(redis_url: str, room_service: RoomService) -> None:
    """What the operator named in the settings is let through, and nothing else."""
    settings = settings_for(redis_url, room_service.url, cors_origins="https://app.example")
    named = {"Origin": "https://app.example", "Sec-Fetch-Site": "cross-site"}
    async with served(settings) as (_, api):
        created = await api.post(SESSIONS, json={"identity": "alice"}, headers=named)
        foreign = await api.post(SESSIONS, json={"identity": "bob"}, headers={"Origin": FOREIGN})

    assert created.status_code == 202
    assert created.headers["access-control-allow-origin"] == "https://app.example"
    assert_problem(foreign, 403, "foreign_origin")


@pytest.mark.parametrize("origins", ["https://app.example", "*"])
async def test_a_page_elsewhere_may_send_what_the_api_needs_and_no_cookies(
    redis_url: str, room_service: RoomService, origins: str
) -> None:
    """Keys travel in a header that a page sets itself; the browser adds nothing of its own."""
    asked = {
        "Origin": "https://app.example",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization, idempotency-key, content-type",
    }
    settings = settings_for(redis_url, room_service.url, cors_origins=origins)
    async with served(settings) as (_, api):
        allowed = await api.options(SESSIONS, headers=asked)
        more = await api.options(
            SESSIONS, headers=asked | {"Access-Control-Request-Headers": "x-other"}
        )
        read = await api.get(HEALTH, headers={"Origin": "https://app.example"})

    assert allowed.status_code == 200
    assert {"authorization", "idempotency-key"} <= {
        name.strip().lower() for name in allowed.headers["access-control-allow-headers"].split(",")
    }
    assert more.status_code == 400
    assert read.headers["access-control-expose-headers"] == "Retry-After"
    assert not {"access-control-allow-credentials"} & {*allowed.headers, *read.headers}


async def test_no_answer_of_the_api_is_a_page(api: Client) -> None:
    """Whatever somebody wrote into it: nothing in it is run, and nobody frames it."""
    answer = await api.create()
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    assert "microphone=(self)" in answer.headers["permissions-policy"]
    assert answer.headers["x-frame-options"] == "DENY"


@pytest.mark.parametrize(
    ("forwarded_for", "status"),
    [
        ("127.0.0.1", 200),
        ("::1, 127.0.0.1", 200),
        ("192.0.2.7", 403),
        ("127.0.0.1, 192.0.2.7", 403),
        ("192.0.2.7, 127.0.0.1", 403),
        ("somebody", 403),
        ("", 403),
    ],
)
async def test_no_proxy_lets_others_into_an_open_replica(
    api: Client, redis_url: str, room_service: RoomService, forwarded_for: str, status: int
) -> None:
    """It would look as if they were on this machine; one that wants keys lets them show theirs."""
    headers = {"X-Forwarded-For": forwarded_for}
    assert (await api.get(HEALTH, headers=headers)).status_code == status
    async with served(settings_for(redis_url, room_service.url, admin_key="k" * 32)) as (_, closed):
        assert (await closed.get(HEALTH, headers=headers)).status_code == 200


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        ([("Forwarded", "for=127.0.0.1;proto=http")], 200),
        ([("Forwarded", 'For="[::1]:4711", for=127.0.0.1:80')], 200),
        ([("Forwarded", "for=192.0.2.7")], 403),
        ([("Forwarded", 'for=127.0.0.1, proto=https; for="[2001:db8::1]:4711"')], 403),
        ([("Forwarded", "for=unknown")], 403),
        ([("Forwarded", "proto=https")], 403),
        ([("X-Real-IP", "127.0.0.1")], 200),
        ([("X-Real-IP", "192.0.2.7")], 403),
        ([("Via", "1.1 proxy")], 403),
        ([("Via", "1.1 proxy"), ("X-Forwarded-For", "127.0.0.1")], 200),
        ([("X-Forwarded-For", "192.0.2.7"), ("X-Forwarded-For", "127.0.0.1")], 403),
        ([("X-Real-IP", "192.0.2.7"), ("X-Forwarded-For", "127.0.0.1")], 403),
    ],
)
async def test_a_proxy_is_heard_whichever_way_it_tells_of_others(
    api: Client, lines: list[tuple[str, str]], status: int
) -> None:
    """The standard's header, nginx's, its own name; and each line of them."""
    assert (await api.get(HEALTH, headers=httpx.Headers(lines))).status_code == status


async def test_answers_are_never_cached_or_sniffed(api: Client) -> None:
    """They hold tokens; errors carry the same headers."""
    for answer in (await api.create(), await api.look("nonsense"), await api.get("/v1/nothing")):
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"


async def test_an_unknown_path_and_method_are_problems_too(api: Client) -> None:
    """404 and 405 in the same shape as all other errors."""
    assert_problem(await api.get("/v1/nothing"), 404, "not_found")
    refused = await api.put(f"{SESSIONS}/x")
    assert_problem(refused, 405, "method_not_allowed")
    assert "GET" in refused.headers["allow"] or "DELETE" in refused.headers["allow"]


async def test_the_api_describes_itself(api: Client) -> None:
    """The OpenAPI document has the paths, the bodies and the parameters."""
    document = (await api.get("/openapi.json")).json()

    create = document["paths"][SESSIONS]["post"]
    look = document["paths"][f"{SESSIONS}/{{session_id}}"]["get"]
    body = create["requestBody"]["content"]["application/json"]["schema"]
    assert body["required"] == ["identity"]
    assert look["parameters"][0]["name"] == "session_id"
    assert {"200", "202"} <= set(create["responses"])


@pytest.fixture
def dist(tmp_path: Path) -> Path:
    """A page as the build leaves it."""
    (tmp_path / "assets").mkdir()
    (tmp_path / "index.html").write_text("<title>Greenroom</title>")
    (tmp_path / "admin.html").write_text("<title>Backstage</title>")
    (tmp_path / "assets" / "app-1a2b.js").write_text("export {}")
    (tmp_path / "favicon.svg").write_text("<svg/>")
    return tmp_path


async def test_pages_are_served(redis_url: str, room_service: RoomService, dist: Path) -> None:
    """Players and viewers get one page, operators another; assets may be kept for ever."""
    settings = settings_for(redis_url, room_service.url)
    async with served(settings, dist) as (_, api):
        start = await api.get("/")
        watch = await api.get("/watch/default-abc")
        admin = await api.get("/admin")
        script = await api.get("/assets/app-1a2b.js")
        icon = await api.get("/favicon.svg")
        missing = await api.get("/assets/none.js")
        outside = await api.get("/assets/..%2findex.html")

    assert start.text == watch.text == "<title>Greenroom</title>"
    assert admin.text == "<title>Backstage</title>"
    assert "script-src" in admin.headers["content-security-policy"]
    assert start.headers["cache-control"] == "no-cache"
    assert "immutable" in script.headers["cache-control"]
    assert "javascript" in script.headers["content-type"]
    assert icon.status_code == 200
    assert_problem(missing, 404, "not_found")
    assert_problem(outside, 404, "not_found")


@pytest.mark.parametrize("name", ["%00", "a%00.js", "a" * 3000, "a/" * 3000, "%ff%fe"])
async def test_a_name_that_no_file_can_have_is_not_found(
    redis_url: str, room_service: RoomService, dist: Path, name: str
) -> None:
    """404 and no error in the log, also for a null character and endless names."""
    async with served(settings_for(redis_url, room_service.url), dist) as (_, api):
        assert_problem(await api.get(f"/assets/{name}"), 404, "not_found")
        assert_problem(await api.get(f"/{name}"), 404, "not_found")


async def test_pages_may_only_load_from_here_and_connect_to_livekit(
    redis_url: str, room_service: RoomService, dist: Path
) -> None:
    """The policy names us and the LiveKit of the clients, both ways of speaking to it."""
    settings = settings_for(redis_url, room_service.url, livekit_public_url="wss://live.example")
    async with served(settings, dist) as (_, api):
        policy = (await api.get("/")).headers["content-security-policy"]

    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == rules["style-src"] == "'self'"
    assert "unsafe" not in policy
    assert rules["connect-src"] == "'self' wss://live.example https://live.example"
    assert rules["frame-ancestors"] == "'none'"


async def test_a_page_that_is_not_built_says_how(api: Client) -> None:
    """A plain text with the commands, not an empty error."""
    answer = await api.get("/")

    assert answer.status_code == 503
    assert answer.headers["content-type"].startswith("text/plain")
    assert "scripts/demo" in answer.text
