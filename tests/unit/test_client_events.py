"""Taking a stream of events apart, however it arrives."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from shared.client.event_lines import Event, EventLines

STREAM = (
    b'retry: 1500\n\n: still here\n\nevent: queued\nid: 12\ndata: {"position":\ndata: 2}\n\n'
    b"data: plain\r\n\r\nid: 13\n\nevent: half\ndata: lost"
)
TOLD = [Event("queued", '{"position":\n2}'), Event("message", "plain")]


@given(cuts=st.lists(st.integers(0, len(STREAM)), max_size=8))
def test_it_doesnt_matter_where_it_is_cut(cuts: list[int]) -> None:
    """The same events, the last id and the hint when to come back."""
    lines, told, at = EventLines(), [], 0
    for cut in [*sorted(cuts), len(STREAM)]:
        told += lines.feed(STREAM[at:cut])
        at = cut

    assert told == TOLD
    assert (lines.last_id, lines.retry_s) == ("13", 1.5)


def test_what_a_connection_left_half_said_is_forgotten() -> None:
    """Neither its text nor its id gets into the first event of the next one."""
    lines = EventLines()
    lines.feed(b"id: 1\ndata: whole\n\nid: 2\ndata: half")
    lines.begin()

    assert lines.feed(b"data: next\n\n") == [Event("message", "next")]
    assert lines.last_id == "1"


@given(noise=st.binary(max_size=200))
def test_no_bytes_break_it(noise: bytes) -> None:
    """What comes from a stream is never trusted."""
    lines = EventLines()
    lines.feed(noise)
    lines.begin()

    assert lines.feed(b"data: fine\n\n") == [Event("message", "fine")]
