"""How does a client prove that a session is its own?

A session token is a signed bearer for exactly one session: ``gst1.<session id>.<signature>``. It
holds no secret of ours and needs no storage, so each replica can check what another one made, also
after everything was restarted. It never expires by itself; it dies with its session's record.
"""

from __future__ import annotations

import base64
import hmac

from shared.signing import Signer

_PREFIX = "gst1"


class SessionTokens:
    """Signs and checks session tokens with one key that all replicas share."""

    def __init__(self, secret: bytes) -> None:
        self._signer = Signer(secret, b"greenroom session token v1:")

    def sign(self, session_id: str) -> str:
        """Return the token of *session_id*; the same one each time."""
        mac = self._signer.digest(session_id.encode())
        signature = base64.urlsafe_b64encode(mac).rstrip(b"=").decode()
        return f"{_PREFIX}.{session_id}.{signature}"

    def verify(self, session_id: str, token: str) -> bool:
        """Say whether *token* was signed for *session_id*, in constant time."""
        return hmac.compare_digest(
            self.sign(session_id).encode(), token.encode("utf-8", "surrogatepass")
        )
