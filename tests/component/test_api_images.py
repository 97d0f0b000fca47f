"""An image in the request: checked, made small, kept beside the record."""

from __future__ import annotations

import base64
import io

import pytest
from PIL import Image

from shared.store import Registry, admission
from tests.support.redis_server import RawRedis
from tests.support.replica import BeginNode, Client, assert_problem


def photo(side: int = 1500) -> str:
    """Return a picture as a data URL, as a page sends it."""
    out = io.BytesIO()
    Image.new("RGB", (side, side), "green").save(out, "PNG")
    return f"data:image/png;base64,{base64.b64encode(out.getvalue()).decode()}"


async def test_an_image_is_kept_small_and_apart(api: Client, registry: Registry) -> None:
    """The node finds a small JPEG under the session; the configuration has it no more."""
    answer = await api.create(config={"image": photo(), "fps": 16})

    session_id = answer.json()["session_id"]
    kept = await registry.image(session_id)
    request = await registry.request(session_id)
    assert answer.status_code == 202
    assert kept is not None
    assert Image.open(io.BytesIO(kept)).size == (1024, 1024)
    assert request is not None
    assert request.config == {"fps": 16}
    await api.stop(session_id)


async def test_the_image_goes_with_its_session(
    api: Client, registry: Registry, raw_redis: RawRedis
) -> None:
    """When the session ends its bytes are given back to the budget."""
    session_id = (await api.create(config={"image": photo()})).json()["session_id"]
    await api.stop(session_id)

    assert await registry.image(session_id) is None
    assert raw_redis.hget("gr:{default}:ctr", "image_bytes") == "0"


@pytest.mark.parametrize(
    "image",
    ["cat.png", "data:image/png;base64,@@@@", "data:image/png;base64,aGVsbG8=", 7, ["x"], {}],
)
async def test_what_is_no_image_is_refused(api: Client, image: object) -> None:
    """422 with the reason, and nothing is left in line."""
    assert_problem(await api.create(config={"image": image}), 422, "invalid_image")

    assert (await api.create()).json()["queue_position"] == 1


async def test_an_image_over_ten_mebibytes_is_refused(api: Client) -> None:
    """422, though the body as a whole would still be taken."""
    huge = "data:image/png;base64," + "A" * (11 * 1024 * 1024 * 4 // 3)

    problem = assert_problem(await api.create(config={"image": huge}), 422, "invalid_image")

    assert "10 MiB" in str(problem["detail"])


async def test_no_image_is_fine(api: Client) -> None:
    """A null is as good as none."""
    assert (await api.create(config={"image": None})).status_code == 202


async def test_too_many_images_are_a_503(api: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over the pool's byte budget the call may be tried again later, or without an image."""
    monkeypatch.setattr(admission, "IMAGE_BUDGET_BYTES", 100)

    answer = await api.create(config={"image": photo(64)})

    assert_problem(answer, 503, "asset_budget_spent")
    assert answer.headers["retry-after"]
    assert (await api.create()).status_code == 202


async def test_an_image_counts_for_the_idempotency_key(api: Client, begin_node: BeginNode) -> None:
    """The same key with another image is another request; a repeat is none."""
    headers = {"Idempotency-Key": "key-1"}
    bodies = [{"identity": "alice", "config": {"image": photo(side)}} for side in (32, 32, 33)]

    first, again, other = [
        await api.post("/v1/stream/sessions", json=body, headers=headers) for body in bodies
    ]

    assert first.json()["session_id"] == again.json()["session_id"]
    assert_problem(other, 409, "idempotency_mismatch")
    await api.stop(first.json()["session_id"])


async def test_a_refused_create_leaves_no_image(api: Client, raw_redis: RawRedis) -> None:
    """What was stored for a session that never came is gone."""
    for _ in range(10):
        await api.create()

    refused = await api.create(config={"image": photo(32)})

    assert refused.status_code == 429
    assert raw_redis.keys("gr:{default}:a:*") == []
