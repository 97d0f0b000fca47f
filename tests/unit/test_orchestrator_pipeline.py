"""Do threads, mailboxes and an event loop keep what the core decides?"""

from __future__ import annotations

import asyncio

import pytest

from gpu_node.orchestrator import Call, LocalActor, Pipeline
from shared.errors import ActorDied, GraphFault, PipelineMisuse, StageFailed
from tests.support.graphs import one_stage, world_graph
from tests.support.stage_code import Code, Gate, running
from tests.support.wait import scaled_s, wait_until


def world_codes() -> dict[str, Code]:
    """Code for the three stages of a world."""
    return {"encode": Code("condition"), "denoise": Code("latent"), "decode": Code("frames")}


async def play(pipeline: Pipeline, session: str, count: int) -> list[int]:
    """Push *count* sequences as room allows, and take them all."""

    async def push() -> None:
        for sequence in range(count):
            if sequence == count - 1:
                pipeline.declare_end(session, count)
            values = {"prompt": "p", "control": sequence}
            assert await pipeline.push_when_room(session, sequence, values)

    pushing = asyncio.create_task(push())
    taken = [output.sequence async for output in pipeline.outputs(session)]
    await pushing
    return taken


async def test_sessions_play_side_by_side_to_their_declared_end() -> None:
    """Each stage on a thread of its own, each output in order, nothing left at the end."""
    codes = world_codes()
    async with running(world_graph(), codes) as pipeline:
        for name in ("a", "b", "c"):
            pipeline.open(name)
        taken = await asyncio.gather(*(play(pipeline, name, 20) for name in ("a", "b", "c")))
        assert taken == [list(range(20))] * 3
        for name in ("a", "b", "c"):
            await pipeline.close(name)
        assert pipeline.metrics()["sessions"] == 0
        assert not any(pipeline.metrics()["diagnostics"].values())
    assert [code.threads for code in codes.values()] == [
        {"stage-encode"}, {"stage-denoise"}, {"stage-decode"},
    ]  # fmt: skip
    assert all(code.shut_down for code in codes.values())
    assert all(sorted(code.closed) == ["a", "b", "c"] for code in codes.values())


async def test_a_stage_s_error_reaches_its_session_and_no_other() -> None:
    """In the stage's own words; its stages let go of it without being asked."""

    def picky(call: Call) -> object:
        if call.session == "a":
            raise ValueError("no such colour")
        return call.sequence

    codes = {**world_codes(), "denoise": Code("latent", run=picky)}
    async with running(world_graph(), codes) as pipeline:
        pipeline.open("a")
        pipeline.open("b")
        for name in ("a", "b"):
            pipeline.push(name, 0, {"prompt": "p", "control": 1})
        with pytest.raises(StageFailed, match="Stage 'denoise' failed: ValueError: no such colour"):
            await pipeline.next_output("a")
        output = await pipeline.next_output("b")
        assert output is not None
        await wait_until(lambda: codes["encode"].closed == ["a"], "the failed one is cleaned")
        with pytest.raises(StageFailed):
            pipeline.poll("a")
        await pipeline.close("a")
        pipeline.open("a")


async def test_closing_waits_for_the_step_in_flight_then_cleans_from_the_end() -> None:
    """What a stage is at is never pulled from under it."""
    gate, order = Gate(), list[str]()
    codes = {**world_codes(), "denoise": Code("latent", run=gate)}
    for name, code in codes.items():
        code.closed = _Noting(name, order)
    async with running(world_graph(), codes) as pipeline:
        pipeline.open("a")
        pipeline.push("a", 0, {"prompt": "p", "control": 1})
        await wait_until(gate.entered.is_set, "denoise is at work")
        closing = asyncio.create_task(pipeline.close("a"))
        with pytest.raises(PipelineMisuse, match="open already"):
            pipeline.open("a")
        waiting = asyncio.create_task(pipeline.next_output("a"))
        assert await waiting is None
        assert not closing.done()
        assert not order
        gate.open.set()
        await closing
        await pipeline.close("a")
    assert order == ["decode", "denoise", "encode"]


class _Noting(list[str]):
    """A list that also notes in a common one whose it is."""

    def __init__(self, name: str, order: list[str]) -> None:
        super().__init__()
        self._name, self._order = name, order

    def append(self, item: str) -> None:
        self._order.append(self._name)
        super().append(item)


async def test_a_cleanup_that_failed_can_be_tried_again_where_it_failed() -> None:
    """Stages that did let go aren't asked twice; the first error is the one that is told."""
    codes = world_codes()
    codes["denoise"].close_fails = 2
    async with running(world_graph(), codes) as pipeline:
        pipeline.open("a")
        for _ in range(2):
            with pytest.raises(StageFailed, match=r"'denoise' failed: .*for the 1th time"):
                await pipeline.close("a")
        assert [code.closed for code in codes.values()] == [["a"], [], ["a"]]
        await pipeline.close("a")
        assert [code.closed for code in codes.values()] == [["a"], ["a"], ["a"]]
        assert pipeline.metrics()["diagnostics"]["cleanup_failures"] == 2
        assert pipeline.metrics()["diagnostics"]["slot_leaks"] == 0


async def test_a_close_that_takes_too_long_says_which_stage_holds_on() -> None:
    """And goes on in the background, so that a second one can succeed."""
    gate = Gate()
    async with running(one_stage(), {"only": Code("b", run=gate)}) as pipeline:
        pipeline.open("a")
        pipeline.push("a", 0, {"a": 1})
        await wait_until(gate.entered.is_set, "the stage is at work")
        with pytest.raises(StageFailed, match="'only' failed: it hasn't let go of a session"):
            await pipeline.close("a", timeout_s=0.01)
        with pytest.raises(StageFailed, match="'only' failed: it hasn't let go of a session"):
            await asyncio.to_thread(pipeline.close_from_thread, "a", 0.01)
        gate.open.set()
        await asyncio.to_thread(pipeline.close_from_thread, "a")
        assert pipeline.metrics()["sessions"] == 0


async def test_a_full_mailbox_is_asked_again_and_nothing_is_lost() -> None:
    """The graph allows four in flight, the mailbox holds one."""
    gate = Gate()
    code = Code("b", run=gate)
    graph = one_stage(in_flight=4, in_flight_per_session=4)
    async with running(graph, {"only": LocalActor(code, mailbox=1)}) as pipeline:
        pipeline.open("a")
        for sequence in range(4):
            pipeline.push("a", sequence, {"a": sequence})
        await wait_until(gate.entered.is_set, "the stage is at work")
        gate.open.set()
        taken = [await pipeline.next_output("a") for _ in range(4)]
        assert [one.sequence for one in taken if one] == [0, 1, 2, 3]
        assert pipeline.metrics()["stages"]["only"]["refused"] >= 1
        assert code.calls == [("a", n) for n in range(4)]


async def test_several_sessions_go_through_a_stage_in_one_batch() -> None:
    """A batch has one step of each session, and one member's fault is its own."""
    gate = Gate()

    class Batching(Code):
        batches: list[list[str]] = []  # noqa: RUF012 — of this test

        def run_batch(self, calls: list[Call]) -> list[object]:
            gate(calls[0])
            self.batches.append([call.session for call in calls])
            return [
                RuntimeError("not this one") if call.session == "b" else {"b": call.session}
                for call in calls
            ]

    code = Batching()
    graph = one_stage(in_flight=8, in_flight_per_session=2)
    async with running(graph, {"only": LocalActor(code, mailbox=8, batch=8)}) as pipeline:
        for name in ("first", "a", "b", "c"):
            pipeline.open(name)
            pipeline.push(name, 0, {"a": 1})
            await wait_until(gate.entered.is_set, "the first is at work")
        pipeline.push("c", 1, {"a": 1})
        gate.open.set()
        outputs = [await pipeline.next_output(name) for name in ("first", "a", "c")]
        assert [one.values["b"] for one in outputs if one] == ["first", "a", "c"]
        with pytest.raises(StageFailed, match="not this one"):
            await pipeline.next_output("b")
        assert await pipeline.next_output("c") is not None
    assert code.batches == [["first"], ["a", "b", "c"], ["c"]]


async def test_an_actor_that_dies_ends_all_sessions_and_later_ones() -> None:
    """With the reason in each; closing says that the stage could not let go."""

    def die(call: Call) -> object:
        raise ActorDied(stage="only", what="the card fell off the bus.")

    async with running(one_stage(), {"only": Code("b", run=die)}) as pipeline:
        pipeline.open("a")
        pipeline.open("b")
        pipeline.push("a", 0, {"a": 1})
        for name in ("a", "b"):
            with pytest.raises(StageFailed, match="the card fell off the bus"):
                await pipeline.next_output(name)
        with pytest.raises(StageFailed, match="its actor is dead"):
            pipeline.open("c")
        with pytest.raises(ActorDied):
            await pipeline.close("a")
        with pytest.raises(ActorDied):
            await pipeline.aclose()
        pipeline._desks.clear()


async def test_a_stage_that_is_stuck_counts_as_dead_and_its_late_answer_as_late() -> None:
    """A thread can't be stopped from outside, but nobody waits for it for ever."""
    gate = Gate()
    async with running(one_stage(), {"only": Code("b", run=gate)}, step_limit_s=0.02) as pipeline:
        pipeline.open("a")
        pipeline.push("a", 0, {"a": 1})
        with pytest.raises(StageFailed, match="busy with one step for more than"):
            await pipeline.next_output("a")
        gate.open.set()
        late = pipeline.metrics
        await wait_until(lambda: late()["diagnostics"]["duplicate"] == 1, "the late answer counts")
        pipeline._desks.clear()


async def test_waiting_for_an_output_can_be_given_up_without_losing_it() -> None:
    """It is taken only when it is handed out."""
    async with running(one_stage(), {"only": Code("b")}) as pipeline:
        pipeline.open("a")
        for _ in range(20):
            waiting = asyncio.create_task(pipeline.next_output("a"))
            await asyncio.sleep(0)
            waiting.cancel()
        pipeline.push("a", 0, {"a": 1})
        output = await pipeline.next_output("a")
        assert output is not None
        assert output.sequence == 0


async def test_all_who_wait_hear_of_the_end() -> None:
    """One of two takes the last output; the other isn't left waiting."""
    gate = Gate()
    async with running(one_stage(), {"only": Code("b", run=gate)}) as pipeline:
        pipeline.open("a")
        pipeline.declare_end("a", 1)
        pipeline.push("a", 0, {"a": 1})
        waiting = [asyncio.create_task(pipeline.next_output("a")) for _ in range(2)]
        gate.open.set()
        outputs = await asyncio.gather(*waiting)
        assert [output is None for output in outputs].count(True) == 1


async def test_other_threads_close_and_stop() -> None:
    """As close_session() and stop() of a service do."""
    code = Code("b")
    pipeline = Pipeline(one_stage(), {"only": LocalActor(code)})
    pipeline.start()
    pipeline.open("a")
    pipeline.push("a", 0, {"a": 1})
    await asyncio.to_thread(pipeline.close_from_thread, "a")
    assert code.closed == ["a"]
    pipeline.open("b")
    await asyncio.to_thread(pipeline.stop_from_thread)
    assert code.closed == ["a", "b"]
    assert code.shut_down
    with pytest.raises(PipelineMisuse, match="being stopped"):
        pipeline.open("c")


def test_a_pipeline_that_never_played_stops_without_a_loop() -> None:
    """A node may stop right after it has loaded."""
    code = Code("b")
    pipeline = Pipeline(one_stage(), {"only": LocalActor(code)})
    pipeline.start()
    pipeline.stop_from_thread()
    assert code.shut_down


def test_stages_and_actors_must_fit() -> None:
    """One actor per stage, and no code with two owners."""
    code = Code("b")
    with pytest.raises(GraphFault) as caught:
        Pipeline(
            world_graph(),
            {"encode": LocalActor(code), "denoise": LocalActor(code), "x": LocalActor(Code())},
        )
    assert caught.value.faults == (
        "Stage 'decode' has no actor; give it one.",
        "There is no stage for the actor 'x'.",
        "The actors 'encode' and 'denoise' share code; it needs one owner.",
    )


async def test_a_stop_lets_sessions_finish_what_they_were_promised() -> None:
    """Within the drain, that is; the rest is closed at once."""
    codes = world_codes()
    pipeline = Pipeline(world_graph(), {name: LocalActor(code) for name, code in codes.items()})
    pipeline.start()
    pipeline.open("finishes")
    playing = asyncio.create_task(play(pipeline, "finishes", 5))
    await wait_until(lambda: codes["decode"].calls, "it plays")
    await pipeline.aclose(drain_s=scaled_s(20))
    assert await playing == [0, 1, 2, 3, 4]
    assert [code.closed for code in codes.values()] == [["finishes"]] * 3


async def test_a_stop_without_a_drain_ends_whoever_waits() -> None:
    """They get no output, and no error either."""
    code = Code("b")
    pipeline = Pipeline(one_stage(), {"only": LocalActor(code)})
    pipeline.start()
    pipeline.open("a")
    waiting = asyncio.create_task(pipeline.next_output("a"))
    await pipeline.aclose()
    assert await waiting is None
    assert code.closed == ["a"]


async def test_a_stop_tries_everything_before_it_raises() -> None:
    """The last stage can't be shut down; the first ones are, all the same."""

    class Stubborn(Code):
        def shutdown(self) -> None:
            raise RuntimeError("not me")

    codes = {**world_codes(), "decode": Stubborn("frames")}
    pipeline = Pipeline(world_graph(), {name: LocalActor(code) for name, code in codes.items()})
    pipeline.start()
    pipeline.open("a")
    with pytest.raises(StageFailed, match="'decode' failed: RuntimeError: not me"):
        await pipeline.aclose()
    assert codes["encode"].shut_down
    assert codes["denoise"].shut_down


async def test_two_who_close_a_session_at_once_both_hear_when_it_is_gone() -> None:
    """And the stages are asked once."""
    codes = world_codes()
    async with running(world_graph(), codes) as pipeline:
        for _ in range(5):
            pipeline.open("a")
            pipeline.push("a", 0, {"prompt": "p", "control": 1})
            closers = [asyncio.create_task(pipeline.close("a")) for _ in range(3)]
            await asyncio.gather(*closers)
            assert pipeline.metrics()["sessions"] == 0
        assert codes["denoise"].closed == ["a"] * 5


async def test_a_caller_who_gives_up_closing_doesnt_stop_the_cleanup() -> None:
    """The stages let go all the same."""
    gate = Gate()
    code = Code("b", run=gate)
    async with running(one_stage(), {"only": code}) as pipeline:
        pipeline.open("a")
        pipeline.push("a", 0, {"a": 1})
        await wait_until(gate.entered.is_set, "the stage is at work")
        closing = asyncio.create_task(pipeline.close("a"))
        await wait_until(lambda: pipeline.session_metrics("a")["phase"] == "closing", "it closes")
        closing.cancel()
        gate.open.set()
        await wait_until(lambda: code.closed == ["a"], "it was let go")
        await pipeline.close("a")


async def test_pushing_waits_for_room_and_ends_with_the_session() -> None:
    """Nobody takes outputs, so room never comes; a cancel wakes the pusher."""
    async with running(one_stage(), {"only": Code("b")}) as pipeline:
        pipeline.open("a")
        for sequence in range(8):
            assert await pipeline.push_when_room("a", sequence, {"a": 1})
        pushing = asyncio.create_task(pipeline.push_when_room("a", 8, {"a": 1}))
        await wait_until(lambda: not pipeline.session_metrics("a")["in_flight"], "it rests")
        assert not pushing.done()
        pipeline.cancel("a")
        assert await pushing is False
