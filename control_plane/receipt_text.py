"""How is a receipt written down, so that nobody can change it unnoticed? Pure.

JSON lines: a header, then every stay in the line and every admission, in order of time.

    {"receipt": "greenroom", "schema": 1, "pool": …, "from": …, "to": …, …, "digest": "sha256:…"}
    {"wait": <session>, "ticket": …, "from": <place>, "until": <place>, "by": …, "left_by": …}
    {"admission": <session>, "ticket": …, "at": <place>, "node_id": …, "epoch": …}

A place is ``<milliseconds>-<number>``. ``from`` is null for who waited before the window began,
``until`` for who waited when it ended. The digest covers the header without itself and all lines.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

from control_plane.receipts import Admission, Receipt, Wait, Window
from shared.errors import StartupError
from shared.events import place_of

NAME = "greenroom"
SCHEMA = 1


class ReceiptChanged(StartupError):
    """The text isn't what was written: its digest differs."""

    code = "receipt_changed"

    def __init__(self) -> None:
        super().__init__(
            "This receipt was changed after it was written: its digest doesn't fit.",
            try_="greenroom receipt --since … > FILE, to export it again",
        )


def written(receipt: Receipt) -> str:
    """Return the text of a receipt."""
    rows = [(wait.begins, 0, _wait_row(wait)) for wait in receipt.waits]
    rows += [(place_of(one.at), 1, _admission_row(one)) for one in receipt.admissions]
    rows.sort(key=lambda row: row[:2])
    lines = [_line(row) for _, _, row in rows]
    window = receipt.window
    header = {
        "receipt": NAME,
        "schema": SCHEMA,
        "pool": window.pool,
        "from": window.since,
        "to": window.until,
        "complete": window.complete,
        "waits": len(receipt.waits),
        "admissions": len(receipt.admissions),
    }
    signed = {**header, "digest": _digest(header, lines)}
    return "".join(f"{line}\n" for line in (_line(signed), *lines))


def read(text: str) -> Receipt:
    """Return the receipt that *text* holds.

    Raises:
        ReceiptChanged: It isn't what was written.
        StartupError: It is no receipt at all, or one of another release.
    """
    first, *lines = text.splitlines() or [""]
    header = _object(first)
    if header.get("receipt") != NAME or header.get("schema") != SCHEMA:
        raise _unreadable()
    if header.pop("digest", None) != _digest(header, lines):
        raise ReceiptChanged
    try:
        return _receipt(header, [_object(line) for line in lines])
    except (KeyError, TypeError, ValueError, AttributeError) as malformed:
        raise _unreadable() from malformed  # anybody can write a digest that fits


def _receipt(header: dict[str, Any], rows: list[dict[str, Any]]) -> Receipt:
    receipt = Receipt(
        window=Window(
            pool=header["pool"],
            since=header["from"],
            until=header["to"],
            complete=header["complete"],
        ),
        waits=tuple(_wait(row) for row in rows if "wait" in row),
        admissions=tuple(_admission(row) for row in rows if "admission" in row),
    )
    places = [receipt.window.since, receipt.window.until, *(one.at for one in receipt.admissions)]
    for wait in receipt.waits:
        places += [place for place in (wait.since, wait.until) if place is not None]
    for place in places:
        place_of(place)
    tickets = [wait.ticket for wait in receipt.waits] + [one.ticket for one in receipt.admissions]
    if any(type(ticket) is not int for ticket in tickets):
        raise TypeError("a ticket is a whole number")
    return receipt


def _unreadable() -> StartupError:
    return StartupError(
        "This is no receipt that this release can read.",
        try_="a file that greenroom receipt --since … has written",
    )


def _digest(header: dict[str, Any], lines: Iterable[str]) -> str:
    text = "\n".join((_line(header), *lines))
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def _line(row: dict[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False)


def _object(line: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return row if isinstance(row, dict) else {}


def _wait_row(wait: Wait) -> dict[str, Any]:
    return {
        "wait": wait.session_id,
        "ticket": wait.ticket,
        "from": wait.since,
        "until": wait.until,
        "by": wait.by,
        "left_by": wait.left_by,
    }


def _admission_row(admission: Admission) -> dict[str, Any]:
    return {
        "admission": admission.session_id,
        "ticket": admission.ticket,
        "at": admission.at,
        "node_id": admission.node_id,
        "epoch": admission.epoch,
    }


def _wait(row: dict[str, Any]) -> Wait:
    return Wait(
        session_id=row["wait"],
        ticket=row["ticket"],
        since=row["from"],
        until=row["until"],
        by=row["by"],
        left_by=row["left_by"],
    )


def _admission(row: dict[str, Any]) -> Admission:
    return Admission(
        session_id=row["admission"],
        ticket=row["ticket"],
        at=row["at"],
        node_id=row["node_id"],
        epoch=row["epoch"],
    )
