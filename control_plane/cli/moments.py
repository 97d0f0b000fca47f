"""Which moment does an operator mean? Pure.

``10m`` and ``2h`` are so long ago, ``now`` is now; ``14:05`` is the last time that this machine's
clock showed that; a date with a time is one of this machine's zone unless it names its own; a
number is Unix seconds.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from shared.errors import StartupError

_AGO = re.compile(r"(\d+(?:\.\d+)?)\s*([smhd])")
_UNIT_S = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_CLOCK = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}))?")


def moment_ms(text: str, *, now_ms: int) -> int:
    """Return the moment as Unix milliseconds; one before 1970, of which nothing is known, is 0.

    Raises:
        StartupError: It can't be read.
    """
    return max(0, _read(text, now_ms))


def _read(text: str, now_ms: int) -> int:
    told = text.strip()
    if told == "now":
        return now_ms
    if ago := _AGO.fullmatch(told):
        return now_ms - round(min(float(ago[1]) * _UNIT_S[ago[2]] * 1000, now_ms))
    if shown := _CLOCK.fullmatch(told):
        return _last_time(int(shown[1]), int(shown[2]), int(shown[3] or 0), now_ms)
    if re.fullmatch(r"\d{9,11}(\.\d+)?", told):
        return round(float(told) * 1000)
    try:
        return round(datetime.fromisoformat(told).astimezone().timestamp() * 1000)
    except (ValueError, OverflowError):  # the first or the last year, in some zones
        raise _unreadable(text) from None


def _last_time(hour: int, minute: int, second: int, now_ms: int) -> int:
    now = datetime.fromtimestamp(now_ms / 1000, tz=UTC).astimezone()
    try:
        moment = now.replace(hour=hour, minute=minute, second=second, microsecond=0)
    except ValueError:
        raise _unreadable(f"{hour}:{minute:02d}") from None
    if moment > now:
        moment -= timedelta(days=1)
    return round(moment.timestamp() * 1000)


def _unreadable(text: str) -> StartupError:
    return StartupError(f"{text[:40]!r} is no time that can be read.", try_="--since 10m")
