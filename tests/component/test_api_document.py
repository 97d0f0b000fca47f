"""The OpenAPI document: complete, true to its own examples, and kept by every answer."""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis.checks import CHECKS, load_all_checks
from schemathesis.core.result import Ok

from control_plane.api.described import CALLS
from tests.support.replica import Client
from tests.support.replica_for_strangers import Target, target
from tests.support.replica_process import Start
from tests.support.wait import scaled_s, wait_until_sync

EXAMPLES = 12
"""Made up for each call."""
WAITING = 12
LEAST_ASKED = 10
REAL_OF_THREE = 2
"""So many of three calls about one session or node are about one that exists."""
READY = "/v1/service/ready"
load_all_checks()
KEPT: list[Any] = CHECKS.get_by_names([
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
])  # fmt: skip


async def document(api: Client) -> dict[str, Any]:
    """Return the document as anybody gets it."""
    found: dict[str, Any] = (await api.get("/openapi.json")).json()
    return found


async def test_every_call_is_described(api: Client) -> None:
    """No route without a row, no row without a route."""
    paths = (await document(api))["paths"]

    assert {(method, path) for path, calls in paths.items() for method in calls} == set(CALLS)


async def test_every_answer_has_a_shape(api: Client) -> None:
    """Also refusals, each with the codes that it may have; only 204 has no body."""
    paths = (await document(api))["paths"]
    for path, calls in paths.items():
        for method, operation in calls.items():
            for status, answer in operation["responses"].items():
                said = f"{method} {path} {status}"
                shapes = [content["schema"] for content in answer.get("content", {}).values()]
                assert shapes or status == "204", said
                assert all(shapes), said


async def test_every_example_is_what_it_shows(api: Client) -> None:
    """Of bodies, answers and refusals."""
    found = await document(api)
    seen = 0
    for operation in (one for calls in found["paths"].values() for one in calls.values()):
        holders = [operation.get("requestBody", {}), *operation["responses"].values()]
        for content in (one for holder in holders for one in holder.get("content", {}).values()):
            shown = [one["value"] for one in content.get("examples", {}).values()]
            shown += [content["example"]] if "example" in content else []
            whole = {**content["schema"], "components": found["components"]}
            for example in shown:
                jsonschema_rs.validate(whole, example)
                seen += 1

    assert seen > 100


async def test_who_may_call_is_said_as_a_scheme(api: Client) -> None:
    """A session's own token where it is good for something, nothing where anybody may call."""
    found = await document(api)
    of_session = found["paths"]["/v1/stream/sessions/{session_id}"]["get"]["security"]

    assert set(found["components"]["securitySchemes"]) == {"apiKey", "sessionToken"}
    assert of_session == [{"sessionToken": []}, {"apiKey": []}]
    assert found["paths"]["/v1/stream/health"]["get"]["security"] == []


@pytest.fixture
def strangers(redis_url: str, start_replica: Start) -> Iterator[Target]:
    """A closed replica with some who wait."""
    with target(redis_url, start_replica, sessions=WAITING) as running:
        yield running


@pytest.mark.timeout(scaled_s(240))
@pytest.mark.parametrize("mode", list(schemathesis.GenerationMode))
def test_every_answer_is_as_promised(strangers: Target, mode: schemathesis.GenerationMode) -> None:
    """Whatever is asked, right or wrong: no error of ours, and an answer of a shape that was named.

    Event streams are left out: they end when their session does.
    """
    schema = schemathesis.openapi.from_url(f"{strangers.address}/openapi.json")
    asked = 0
    for found in schema.exclude(path_regex="/events$").get_all_operations():
        assert isinstance(found, Ok)
        operation = found.ok()

        @settings(
            max_examples=EXAMPLES,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
            derandomize=True,
        )
        @given(case=operation.as_strategy(generation_mode=mode))
        def ask(case: schemathesis.Case[Any]) -> None:
            name_real_ones(case, strangers)
            answer = wait_until_sync(lambda: answer_to(case, strangers), "it is served", 30)
            # That nobody can be served is an answer there, and a drained node is enough for it.
            case.validate_response(answer, checks=KEPT[case.path == READY :])

        with contextlib.suppress(Unsatisfiable):  # nothing can be wrong where nothing is asked for
            ask()
            asked += 1

    assert asked >= LEAST_ASKED


def answer_to(case: schemathesis.Case[Any], strangers: Target) -> schemathesis.Response | None:
    """Return the answer; None if this machine was too slow for Redis to be heard in time."""
    answer = case.call(headers=strangers.headers, timeout=scaled_s(30))
    is_late = answer.status_code == 503 and answer.json().get("code") == "store_unavailable"
    return None if is_late else answer


def name_real_ones(case: schemathesis.Case[Any], strangers: Target) -> None:
    """Let most calls be about a session or node that exists; which ones follows from the call."""
    for name, real in (("session_id", strangers.session_ids), ("node_id", strangers.node_ids)):
        if name in case.path_parameters:
            chance = zlib.crc32(str(case.path_parameters[name]).encode())
            if chance % 3 < REAL_OF_THREE:
                case.path_parameters[name] = real[chance % len(real)]
