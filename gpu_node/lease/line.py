"""Who is how far back in a line?

A FIFO in which everybody can ask for their place and leave from the middle. Tickets only rise, so
the list of those still in line is sorted: a place is found by bisection.
"""

from __future__ import annotations

from bisect import bisect_left


class Line:
    """Names in the order of their arrival. Each stands in it at most once."""

    def __init__(self) -> None:
        self._next_ticket = 0
        self._tickets: list[int] = []
        self._names: dict[int, str] = {}
        self._ticket_of: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._tickets)

    def __contains__(self, name: str) -> bool:
        return name in self._ticket_of

    @property
    def head(self) -> str | None:
        """Who is next."""
        return self._names[self._tickets[0]] if self._tickets else None

    def join(self, name: str) -> None:
        """Stand at the end."""
        ticket, self._next_ticket = self._next_ticket, self._next_ticket + 1
        self._tickets.append(ticket)
        self._names[ticket] = name
        self._ticket_of[name] = ticket

    def leave(self, name: str) -> None:
        """Go away, from wherever one stands; whoever isn't in line may do so too."""
        ticket = self._ticket_of.pop(name, None)
        if ticket is not None:
            del self._tickets[bisect_left(self._tickets, ticket)]
            del self._names[ticket]

    def position(self, name: str) -> int | None:
        """Return the place, 1 for the head; None for who isn't in line."""
        ticket = self._ticket_of.get(name)
        return None if ticket is None else bisect_left(self._tickets, ticket) + 1
