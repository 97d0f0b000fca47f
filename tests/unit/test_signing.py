"""Signing with one key, many times."""

from __future__ import annotations

import hashlib
import hmac

from hypothesis import given
from hypothesis import strategies as st

from shared.signing import Signer


@given(secret=st.binary(max_size=200), purpose=st.binary(max_size=80), text=st.binary(max_size=200))
def test_it_is_the_hmac_of_the_standard_library(secret: bytes, purpose: bytes, text: bytes) -> None:
    """Also for keys that are longer than a block."""
    expected = hmac.digest(secret, purpose + text, hashlib.sha256)

    assert Signer(secret, purpose).digest(text) == expected


def test_one_text_leaves_no_trace_in_the_next() -> None:
    """The kept states are copied, never used up."""
    signer = Signer(b"secret")
    first = signer.digest(b"one")
    signer.digest(b"two")

    assert signer.digest(b"one") == first


def test_it_never_prints_its_secret() -> None:
    """Not even in a traceback's variables."""
    assert repr(Signer(b"secret")) == "Signer(…)"
