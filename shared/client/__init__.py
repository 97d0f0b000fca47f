"""How does a program use a Greenroom server?

`Greenroom` makes the calls and knows when to repeat them; `Session` is what it got; everything that
is refused is a `Problem`. See the README beside this.
"""

from shared.client.answers import News, Session, Status, Token
from shared.client.greenroom import Greenroom
from shared.client.problems import (
    Conflict,
    Invalid,
    NotAllowed,
    NotFound,
    Problem,
    Refused,
    SessionOver,
    Unavailable,
)

__all__ = [
    "Conflict",
    "Greenroom",
    "Invalid",
    "News",
    "NotAllowed",
    "NotFound",
    "Problem",
    "Refused",
    "Session",
    "SessionOver",
    "Status",
    "Token",
    "Unavailable",
]
