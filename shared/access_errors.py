"""What is a caller told who may not do this, or not so often?

A branch of the tree in `errors`, apart for its length:

    NotAllowed     NoCredentials 401, BadApiKey 401, ScopeMissing 403, ForeignSession 403,
                   ForeignCaller 403
    Busy           RateLimited 429
    NotFound       UnknownKey 404
    Conflict       TooManyKeys 409
"""

from __future__ import annotations

from shared.errors import Busy, Conflict, NotAllowed, NotFound


class NoCredentials(NotAllowed):
    """The server is closed and the call names no key and no session token."""

    code = "no_credentials"
    status = 401

    def __init__(self) -> None:
        super().__init__(
            "This server is closed: send an API key or a session_token as "
            "'Authorization: Bearer …'."
        )


class BadApiKey(NotAllowed):
    """What was sent as a key is none, or was revoked."""

    code = "bad_api_key"
    status = 401

    def __init__(self) -> None:
        super().__init__("This API key isn't known here; greenroom keys lists those that are.")


class ScopeMissing(NotAllowed):
    """The caller is known, but may not do this."""

    code = "scope_missing"

    def __init__(self, *, scope: str, key_id: str = "") -> None:
        if key_id:
            super().__init__(f"This call needs a key with the scope '{scope}'.")
        else:
            super().__init__("A session_token opens its own session; this call needs an API key.")
        self.key_id = key_id


class ForeignSession(NotAllowed):
    """A key that may create sessions was used on one that it didn't make."""

    code = "foreign_session"

    def __init__(self, *, key_id: str) -> None:
        super().__init__(
            "This key hasn't created this session: use its session_token, or the key that did."
        )
        self.key_id = key_id


class ForeignCaller(NotAllowed):
    """A proxy lets somebody in from elsewhere, where nobody is asked for a key."""

    code = "foreign_caller"

    def __init__(self) -> None:
        super().__init__(
            "A proxy lets others in here, but this server asks nobody for a key: give it an "
            "--admin-key, or --no-auth if all of them may do everything."
        )


class RateLimited(Busy):
    """Somebody asks more often than is allowed."""

    code = "rate_limited"

    def __init__(self, *, what: str, retry_after_s: int) -> None:
        super().__init__(detail="rate_limited", retry_after_s=retry_after_s)
        self.args = (f"Too many {what}; try again in {retry_after_s} s.",)


class UnknownKey(NotFound):
    """No API key has this id (any more)."""

    code = "unknown_key"

    def __init__(self, *, key_id: str) -> None:
        super().__init__(f"There is no API key {key_id[:64]!r}.")


class TooManyKeys(Conflict):
    """No more API keys can be added."""

    code = "too_many_keys"

    def __init__(self, *, most: int) -> None:
        super().__init__(f"There are {most} API keys already: revoke one of them first.")
