"""Session tokens: a bearer for exactly one session."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from control_plane.session_tokens import SessionTokens
from shared.ids import new_session_id

TOKENS = SessionTokens(b"secret")
SESSION = new_session_id("default")


def test_a_token_opens_its_own_session() -> None:
    """What was signed is accepted, by another replica with the same secret too."""
    assert SessionTokens(b"secret").verify(SESSION, TOKENS.sign(SESSION))


def test_a_token_is_the_same_each_time() -> None:
    """A client that lost the answer gets the very same token again."""
    assert TOKENS.sign(SESSION) == TOKENS.sign(SESSION)


def test_a_token_opens_no_other_session() -> None:
    """Another session's token is refused."""
    assert not TOKENS.verify(SESSION, TOKENS.sign(new_session_id("default")))


def test_another_secret_makes_another_token() -> None:
    """A replica with another secret refuses."""
    assert not SessionTokens(b"other").verify(SESSION, TOKENS.sign(SESSION))


def test_a_changed_token_is_refused() -> None:
    """Each character counts."""
    token = TOKENS.sign(SESSION)
    for at in range(len(token)):
        other = "A" if token[at] != "A" else "B"
        assert not TOKENS.verify(SESSION, token[:at] + other + token[at + 1 :])


def test_the_secret_is_not_in_the_token() -> None:
    """A token tells the session and a signature, nothing of ours."""
    prefix, session_id, signature = TOKENS.sign(SESSION).split(".")
    assert (prefix, session_id, len(signature)) == ("gst1", SESSION, 43)


@given(st.text())
def test_any_text_is_refused_without_an_error(text: str) -> None:
    """Whatever arrives in a header is only ever refused, half characters included."""
    assert not TOKENS.verify(SESSION, text)
    assert not TOKENS.verify(SESSION, text + "\ud800")
