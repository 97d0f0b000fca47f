"""Problems: every error has a stable code, a status and the compatible text."""

from __future__ import annotations

import json

import pytest
from pydantic import BaseModel, ValidationError

from control_plane.api.problems import invalid_body, problem, sentence_of
from shared.errors import (
    AssetBudgetSpent,
    BadSessionToken,
    BodyTooLarge,
    Busy,
    ForeignHost,
    ForeignOrigin,
    GreenroomError,
    IdempotencyMismatch,
    InvalidImage,
    InvalidName,
    InvalidRequest,
    ReservedIdentity,
    RoomsUnavailable,
    SessionEnded,
    StoreUnavailable,
    UnknownPool,
    UnknownSession,
)

ERRORS: list[tuple[GreenroomError, int, str, bool]] = [
    (InvalidRequest("It is wrong."), 422, "invalid_request", False),
    (InvalidName(what="pool", name="?", allowed="letters"), 422, "invalid_name", False),
    (UnknownPool(pool="gold", served=("a", "b")), 422, "unknown_pool", False),
    (ReservedIdentity(why="taken"), 422, "reserved_identity", False),
    (InvalidImage(why="broken"), 422, "invalid_image", False),
    (BodyTooLarge(limit_bytes=2**24), 413, "body_too_large", False),
    (BadSessionToken(), 403, "bad_session_token", False),
    (ForeignHost(), 403, "foreign_host", False),
    (ForeignOrigin(), 403, "foreign_origin", False),
    (UnknownSession(session_id="x"), 404, "unknown_session", False),
    (SessionEnded(reason="completed"), 409, "session_ended", False),
    (IdempotencyMismatch(), 409, "idempotency_mismatch", False),
    (Busy(detail="queue_full", retry_after_s=5), 429, "busy", True),
    (StoreUnavailable(why="gone"), 503, "store_unavailable", True),
    (RoomsUnavailable(why="gone"), 503, "rooms_unavailable", True),
    (AssetBudgetSpent(), 503, "asset_budget_spent", True),
]


@pytest.mark.parametrize(("error", "status", "code", "retryable"), ERRORS)
def test_an_error_becomes_a_problem(
    error: GreenroomError, status: int, code: str, retryable: bool
) -> None:
    """Status, code and whether to try again; a retryable one says when."""
    answer = problem(error)

    body = json.loads(bytes(answer.body))
    assert answer.media_type == "application/problem+json"
    assert (answer.status_code, body["status"], body["code"]) == (status, status, code)
    assert body["type"] == f"urn:greenroom:problem:{code}"
    assert body["message"] == str(error)
    assert body["retryable"] is retryable
    assert ("retry-after" in answer.headers) is retryable
    assert ("retry_after_s" in body) is retryable


def test_compatible_clients_find_their_texts_in_detail() -> None:
    """The words of 429 and the texts of 404 and 409 are those of the API that we follow."""
    details = [
        json.loads(bytes(problem(error, session_id="s-1").body))["detail"]
        for error in (
            Busy(detail="no_idle_worker", retry_after_s=5),
            UnknownSession(session_id="s-1"),
            SessionEnded(reason="completed"),
        )
    ]

    assert details == ["no_idle_worker", "'Session s-1 not found'", "Session s-1 is not active"]


class _Inner(BaseModel):
    fps: int


class _Body(BaseModel):
    name: str
    inner: _Inner


def test_a_sentence_names_the_inner_field() -> None:
    """A fault deep inside is named by its whole path, without the value."""
    with pytest.raises(ValidationError) as wrong:
        _Body.model_validate({"name": "x", "inner": {"fps": "secret"}})

    sentence = str(invalid_body(wrong.value))

    assert sentence.startswith("The field 'inner.fps' is wrong: input should be a valid integer")
    assert "secret" not in sentence


def test_a_sentence_counts_the_other_faults() -> None:
    """Only the first is told in full."""
    with pytest.raises(ValidationError) as wrong:
        _Body.model_validate({})

    assert str(invalid_body(wrong.value)) == "The field 'name' is missing (and 1 more)."


def test_a_fault_of_the_whole_body_has_no_field() -> None:
    """Without a path it is the body that is wrong."""
    assert sentence_of([{"msg": "Too short", "loc": ("body",)}]) == "The body is wrong: too short."
