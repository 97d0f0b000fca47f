"""Does somebody's own service file stream, from the command to a picture?"""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.smoke_player import Player, until
from tests.support.all_in_one import all_in_one

pytestmark = pytest.mark.timeout(120)

TEN_LINES = """\
import asyncio, numpy
class Sunrise:
    start = stop = lambda self: None
    create_session = lambda self, config: config["session_id"]
    push_chunk = close_session = lambda self, *_: None
    async def pull_chunks(self, session_id):
        for light in range(40, 4000, 3):
            yield {"frames": [numpy.full((120, 160, 3), light % 256, numpy.uint8)], "fps": 10}
            await asyncio.sleep(0.1)
def get_service(): return Sunrise()
"""


async def test_ten_lines_of_ones_own_are_streamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No import of ours, no options: the file's name is enough, and its picture arrives."""
    monkeypatch.delenv("http_proxy", raising=False)
    (tmp_path / "sunrise.py").write_text(TEN_LINES)
    player = Player()
    with all_in_one(tmp_path, "sunrise.py") as stack:
        session = stack.create("ada")
        await player.join(session["livekit_url"], session["token"])
        try:
            await until(lambda: player.was_told("first_frame"), "the status first_frame")
            await until(lambda: player.real_frames >= 10, "ten frames")
            assert any(seen.change > 1 for seen in player.seen), "it gets lighter"
        finally:
            await player.leave()
        assert stack.metadata()["pipeline_file"] == "sunrise.py"
