"""How answers are written."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from control_plane.api.answers import json_answer
from shared.states import SessionState

BODIES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(body=BODIES)
def test_an_answer_is_the_json_of_its_body(body: object) -> None:
    """With a head that says what it is and how long."""
    answer = json_answer(body, 202)

    assert json.loads(bytes(answer.body)) == body
    assert answer.status_code == 202
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["content-length"] == str(len(answer.body))


def test_words_of_closed_sets_are_written_as_words() -> None:
    """A state is its name."""
    assert json_answer({"state": SessionState.QUEUED}).body == b'{"state":"queued"}'


def test_half_a_character_is_escaped() -> None:
    """What a service said may hold one; its look-up is no place to break."""
    answer = json_answer({"line": "loading \ud800", "state": SessionState.QUEUED})

    assert answer.body == b'{"line":"loading \\ud800","state":"queued"}'
