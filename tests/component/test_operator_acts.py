"""What can an operator change, and what follows from it?"""

from __future__ import annotations

import pytest

from shared.states import Reason
from shared.store import Registry
from tests.support.operator import Operator, open_sessions
from tests.support.replica import BeginNode


async def test_a_drained_node_is_given_no_session_until_it_is_resumed(
    registry: Registry, operator: Operator, begin_node: BeginNode
) -> None:
    """Whoever is on it plays on; whoever waits is served in the step that opens it again."""
    node = await begin_node(capacity=2)
    (playing,) = await open_sessions(registry, 1)
    await node.play(playing)
    told = await operator.says("drain", "node-a")
    assert (told.status, told.lines[0]) == (
        0,
        "node-a is given no new sessions from now on; 1 slot is still in use there.",
    )
    (waiting,) = await open_sessions(registry, 1)
    await node.beat()
    assert [(await registry.read(name)).state for name in (playing, waiting)] == [
        "running",
        "queued",
    ]
    told = await operator.says("resume", "node-a", "--json")
    assert told.json == {
        "node_id": "node-a",
        "admin": "open",
        "sessions": 1,
        "called_off": False,
    }
    assert (await registry.read(waiting)).node_id == "node-a"


async def test_draining_twice_says_the_same(operator: Operator, begin_node: BeginNode) -> None:
    """Nothing more happens, nothing is refused."""
    await begin_node()
    first, second = [await operator.says("drain", "node-a") for _ in range(2)]
    assert first.text == second.text
    assert "it is empty" in first.text


@pytest.mark.parametrize("command", ["drain", "resume"])
@pytest.mark.parametrize("node", ["node-z", "Not a name", ""])
async def test_an_unknown_node_is_told(operator: Operator, command: str, node: str) -> None:
    """With the command that lists them."""
    told = await operator.says(command, node)
    assert told.status == 2
    assert told.lines[1] == "Try: greenroom nodes"


async def test_a_cancelled_session_ends_by_an_operator(
    registry: Registry, operator: Operator, begin_node: BeginNode
) -> None:
    """A waiting one at once; one on stage when its node has cleaned up."""
    node = await begin_node()
    playing, waiting = await open_sessions(registry, 2)
    await node.play(playing)
    told = await operator.says("cancel", waiting)
    assert told.text == f"{waiting} has ended; it held no slot.\n"
    told = await operator.says("cancel", playing)
    assert told.text == f"{playing} is ending; node-a cleans up and frees its slot.\n"
    assert (await registry.read(playing)).state == "draining"
    await node.end(playing, Reason.COMPLETED)
    for name in (playing, waiting):
        record = await registry.read(name)
        assert (record.state, record.reason) == ("closed", "admin")
    told = await operator.says("cancel", playing, "--json")
    assert told.json == {"session_id": playing, "state": "closed", "reason": "admin"}


async def test_the_first_reason_stays(registry: Registry, operator: Operator) -> None:
    """Who comes too late is told what was said before."""
    (name,) = await open_sessions(registry, 1)
    await registry.cancel(name, Reason.CLIENT_STOP)
    told = await operator.says("cancel", name)
    assert told.text == f"{name} has ended already (client_stop); that reason stays.\n"


async def test_an_unknown_session_is_told(operator: Operator) -> None:
    """With the command that lists them."""
    told = await operator.says("cancel", "default-" + "x" * 26)
    assert (told.status, told.lines[1]) == (2, "Try: greenroom ps")
