"""What does a pipeline do, step by step, on a clock that the test turns?"""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpu_node.orchestrator.core import News
from gpu_node.orchestrator.graph import Artifact, Edge, Graph, Ordering, ResourceGroup, Stage
from gpu_node.orchestrator.session import Phase
from shared.errors import PipelineMisuse, StageFailed
from tests.support.graphs import one_stage, world_graph
from tests.support.simulated_pipeline import SimulatedPipeline


def opened(graph: Graph | None = None, *sessions: str) -> SimulatedPipeline:
    """A pipeline with these sessions open."""
    pipe = SimulatedPipeline(graph or world_graph())
    for session in sessions or ("a",):
        pipe.open(session)
    return pipe


def test_a_push_goes_in_whole_or_not_at_all() -> None:
    """With room for the prompt and none for the control, neither is taken."""
    pipe = opened()
    for sequence in (0, 1):
        assert pipe.push("a", sequence, control="c")
    assert pipe.push("a", 0, prompt="p")
    assert pipe.push("a", 1, prompt="p")
    held = pipe.core.session("a").held
    assert not pipe.push("a", 2, prompt="p", control="c")
    assert pipe.core.session("a").held == held
    pipe.run(3)
    assert pipe.push("a", 2, prompt="p", control="c")


@pytest.mark.parametrize(
    ("sequence", "words"),
    [(0, "was pushed before; next is 1"), (2, "leaves a gap; next is 1")],
)
def test_a_sequence_pushed_twice_or_too_early_is_an_error(sequence: int, words: str) -> None:
    """Each artifact comes in order, so a mistake is told where it is made."""
    pipe = opened()
    pipe.push("a", 0, prompt="p")
    with pytest.raises(PipelineMisuse, match=words):
        pipe.push("a", sequence, prompt="p")


def test_only_what_comes_from_outside_can_be_pushed_and_of_the_right_type() -> None:
    """Both are told in a sentence."""
    artifacts = tuple(
        replace(one, type=str) if one.name == "prompt" else one for one in world_graph().artifacts
    )
    pipe = opened(world_graph(artifacts=artifacts))
    with pytest.raises(PipelineMisuse, match="'latent' is no artifact that is pushed from outside"):
        pipe.push("a", 0, latent=1)
    with pytest.raises(PipelineMisuse, match="Artifact 'prompt' must be str, not int"):
        pipe.push("a", 0, prompt=1)
    with pytest.raises(PipelineMisuse, match="isn't a latched artifact"):
        pipe.latch("a", "prompt", "p")
    with pytest.raises(PipelineMisuse, match="isn't open"):
        pipe.push("b", 0, prompt="p")


def test_after_the_declared_end_nothing_more_comes_in_and_the_session_is_finished() -> None:
    """The end is known before the last sequence is pushed."""
    pipe = opened()
    pipe.push("a", 0, prompt="p", control="c")
    pipe.core.declare_end("a", 2, pipe.now_s)
    pipe.core.declare_end("a", 2, pipe.now_s)
    with pytest.raises(PipelineMisuse, match="can't become 3"):
        pipe.core.declare_end("a", 3, pipe.now_s)
    pipe.push("a", 1, prompt="p", control="c")
    with pytest.raises(PipelineMisuse, match="past the declared end 2"):
        pipe.push("a", 2, prompt="p", control="c")
    pipe.run(10)
    assert [pipe.take("a") is None for _ in range(3)] == [False, False, True]
    assert pipe.core.session("a").phase is Phase.FINISHED
    assert pipe.news[-1] == (News.QUIET, "a")


def test_an_end_declared_after_its_last_sequence_is_an_error() -> None:
    """By then the stages may have been through with it."""
    pipe = opened()
    pipe.push("a", 0, prompt="p", control="c")
    with pytest.raises(PipelineMisuse, match="An end of 1 comes too late"):
        pipe.core.declare_end("a", 1, pipe.now_s)


def test_outputs_leave_in_order_although_their_stage_finishes_in_another() -> None:
    """Without an order the second is through first, and waits."""
    graph = one_stage(ordering=Ordering.NONE, in_flight=2, in_flight_per_session=2)
    pipe = SimulatedPipeline(graph, lambda work: 5.0 if work.sequence == 0 else 1.0)
    pipe.open("a")
    pipe.push("a", 0, a=1)
    pipe.push("a", 1, a=1)
    pipe.run(2)
    assert pipe.take("a") is None
    pipe.run(4)
    outputs = [pipe.take("a"), pipe.take("a")]
    assert [one.sequence for one in outputs if one] == [0, 1]


def test_a_stage_begins_only_what_it_will_have_room_for() -> None:
    """Nobody takes outputs: every edge fills up to its capacity and everything rests."""
    pipe = opened()
    sent = 0
    for _ in range(20):
        while pipe.push("a", sent, prompt="p", control="c"):
            sent += 1
        pipe.run(1)
    assert not pipe.running
    begun = {stage: pipe.begun_by(stage)["a"] for stage in ("encode", "denoise", "decode")}
    assert begun == {"decode": 2, "denoise": 4, "encode": 6}
    assert pipe.take("a") is not None
    pipe.run(5)
    assert pipe.begun_by("decode")["a"] == 3


def test_a_fault_ends_one_session_and_the_others_play_on() -> None:
    """What the failed one had waiting is let go; its own words are kept."""
    pipe = opened(None, "a", "b")
    for name in ("a", "b"):
        pipe.push(name, 0, prompt="p", control="c")
    (bad,) = (work for work in pipe.running.values() if work.session == "a")
    pipe.fail(bad, ValueError("no such colour"))
    failed = pipe.core.session("a")
    assert failed.phase is Phase.FAILED
    assert str(failed.error) == "Stage 'encode' failed: ValueError: no such colour."
    assert failed.held == 0
    assert not pipe.push("a", 1, prompt="p", control="c")
    assert (News.FAILED, "a") in pipe.news
    assert (News.QUIET, "a") in pipe.news
    pipe.run(10)
    assert pipe.take("b") is not None


def test_a_product_of_the_wrong_kind_is_a_fault_of_its_stage() -> None:
    """Missing, too many, of another type or no mapping at all."""
    graph = replace(one_stage(), artifacts=(Artifact(name="a"), Artifact(name="b", type=bytes)))
    for values, words in (
        (None, "it must return a mapping with b, not NoneType"),
        ({}, "it must return b, and it returned nothing"),
        ({"b": b"", "c": 1}, "it must return b, and it returned b, c"),
        ({"b": "text"}, "its b must be bytes, not str"),
    ):
        pipe = opened(graph)
        pipe.push("a", 0, a=1)
        pipe.core.completed(next(iter(pipe.running.values())), values, 1.0)
        error = pipe.core.session("a").error
        assert isinstance(error, StageFailed)
        assert words in str(error)


def test_a_result_of_a_former_life_is_dropped_and_counted() -> None:
    """The same session id was opened again; its epoch tells the two apart."""
    pipe = opened()
    pipe.push("a", 0, prompt="p", control="c")
    (lost,) = pipe.running.values()
    pipe.core.actor_died(0, "it is stuck.", 0.0)
    pipe.core.turns.lines[0].dead = False  # as if mended
    pipe.core.stop("a", 0.0)
    pipe.clean("a")
    pipe.complete(lost)
    pipe.open("a")
    pipe.push("a", 0, prompt="new", control="c")
    pipe.complete(lost)
    found = pipe.core.diagnostics
    assert (found.orphaned, found.stale_epoch, found.duplicate) == (1, 1, 0)
    (now,) = pipe.running.values()
    assert (now.inputs["prompt"], now.epoch) == ("new", lost.epoch + 1)
    pipe.complete(now)
    pipe.complete(now)
    assert found.duplicate == 1


def test_a_dead_actor_ends_all_sessions_that_run_and_lets_none_begin() -> None:
    """Nothing can come out any more, whoever they are."""
    pipe = opened(None, "a", "b")
    pipe.push("a", 0, prompt="p", control="c")
    pipe.core.actor_died(1, "its process is gone.", 1.0)
    assert {one.phase for one in pipe.core.sessions.values()} == {Phase.FAILED}
    assert "Stage 'denoise' failed: its process is gone." in str(pipe.core.session("b").error)
    with pytest.raises(StageFailed, match="its actor is dead"):
        pipe.open("c")


def test_closing_lets_go_at_once_and_waits_for_what_is_in_flight() -> None:
    """Buffers first, then the stages from the last to the first, skipping those that are done."""
    pipe = opened()
    pipe.push("a", 0, prompt="p", control="c")
    pipe.push("a", 1, prompt="p", control="c")
    pipe.close("a")
    session = pipe.core.session("a")
    assert session.held == 0
    assert session.in_flight
    assert (News.QUIET, "a") not in pipe.news
    assert not pipe.push("a", 2, prompt="p", control="c")
    pipe.run(1)
    assert pipe.news[-1] == (News.QUIET, "a")
    assert pipe.core.diagnostics.discarded == 1
    assert pipe.core.uncleaned("a") == [2, 1, 0]
    pipe.core.cleaned("a", 2)
    first, second = RuntimeError("first"), RuntimeError("second")
    pipe.core.cleanup_failed("a", first)
    pipe.core.cleanup_failed("a", second)
    assert session.cleanup_error is first
    assert pipe.core.uncleaned("a") == [1, 0]
    pipe.clean("a")
    assert pipe.core.diagnostics.slot_leaks == 0
    assert pipe.core.diagnostics.cleanup_failures == 2


def test_a_session_that_is_forgotten_too_early_counts_as_a_leak() -> None:
    """Whoever reads the metrics sees that something was never let go."""
    pipe = opened()
    pipe.push("a", 0, prompt="p", control="c")
    pipe.core.forget("a")
    assert pipe.core.diagnostics.slot_leaks == 1


def test_a_held_key_counts_at_the_next_beginning() -> None:
    """A latched control is read when the stage begins, not when the chunk was asked for."""
    graph = world_graph(
        artifacts=tuple(
            replace(one, latched=one.name == "control") for one in world_graph().artifacts
        )
    )
    pipe = opened(graph)
    pipe.push("a", 0, prompt="p")
    pipe.push("a", 1, prompt="p")
    pipe.run(5)
    assert not pipe.begun_by("denoise")
    pipe.latch("a", "control", "left")
    pipe.latch("a", "control", "up")
    pipe.latch("a", "control", "right")
    pipe.run(1)
    seen = [work.inputs["control"] for work in pipe.begun if pipe.stage(work) == "denoise"]
    assert seen == ["left", "right"]
    pipe.run(10)
    assert pipe.push("a", 2, prompt="p")
    assert pipe.take("a") is not None
    pipe.run(10)
    answered = pipe.core.session("a").times.control_to_output.report()
    assert (answered["count"], answered["min"], answered["max"]) == (2, 2.0, 3.0)


def test_stages_that_share_a_group_take_turns_in_it() -> None:
    """Never more at once than it allows, and neither waits for ever."""
    graph = world_graph(
        stages=tuple(replace(one, resource_group="gpu") for one in world_graph().stages),
        resource_groups=(ResourceGroup(name="gpu"),),
    )
    pipe = opened(graph, "a", "b")
    sent = {"a": 0, "b": 0}
    for _ in range(30):
        for name in ("a", "b"):
            while pipe.push(name, sent[name], prompt="p", control="c"):
                sent[name] += 1
            pipe.take(name)
        assert len(pipe.running) <= 1
        pipe.run(1)
    for stage in ("encode", "denoise", "decode"):
        assert min(pipe.begun_by(stage)[name] for name in sent) >= 3


def test_who_was_refused_is_first_again() -> None:
    """A full mailbox costs nobody its turn, and its place on the edges is what it was."""
    pipe = SimulatedPipeline(one_stage(in_flight=2), refuses=lambda work: work.request == 1)
    for name in ("a", "b"):
        pipe.open(name)
    for name in ("a", "b"):
        pipe.core.push(name, 0, {"a": name}, 0.0)
    pipe.pump()
    assert not pipe.running
    assert pipe.core.turns.lines[0].waits_for() == "actor_busy"
    pipe.free_actors()
    assert [work.inputs["a"] for work in pipe.begun] == ["a", "b"]
    assert pipe.core.turns.lines[0].counts.refused == 1


def test_what_was_refused_out_of_order_is_begun_once() -> None:
    """The second sequence had been begun before the first, whose beginning was refused."""
    graph = Graph(
        artifacts=tuple(Artifact(name=name) for name in ("a", "b", "c")),
        stages=tuple(
            Stage(
                id=made,
                consumes=(of,),
                produces=(made,),
                ordering=Ordering.NONE,
                in_flight=2,
                in_flight_per_session=2,
            )
            for of, made in (("a", "b"), ("b", "c"))
        ),
        edges=(
            Edge(artifact="a", target="b", capacity=2),
            Edge(artifact="b", source="b", target="c", capacity=2),
        ),
        outputs=("c",),
        output_capacity=2,
    )
    pipe = SimulatedPipeline(graph, refuses=lambda work: work.request == 4)
    pipe.open("s")
    pipe.push("s", 0, a=1)
    pipe.push("s", 1, a=1)
    early, late = pipe.running.values()
    pipe.complete(late)
    pipe.complete(early)
    pipe.free_actors()
    assert [(pipe.stage(w), w.sequence) for w in pipe.begun[2:]] == [("c", 1), ("c", 0)]
    progress = pipe.core.session("s").progress[1]
    assert (progress.begun, progress.ahead) == (2, set())


def three_on_one_gpu() -> Graph:
    """Stages that have nothing in common but the GPU and a key."""
    artifacts = [Artifact(name=name) for name in ("a", "b", "c", "p", "q", "r")]
    return Graph(
        artifacts=(*artifacts, Artifact(name="key", latched=True)),
        stages=tuple(
            Stage(id=made, consumes=(of, "key"), produces=(made,), resource_group="gpu")
            for of, made in (("a", "p"), ("b", "q"), ("c", "r"))
        ),
        edges=(
            *(Edge(artifact=of, target=to, capacity=9) for of, to in ("ap", "bq", "cr")),
            *(Edge(artifact="key", target=to) for to in "pqr"),
        ),
        outputs=("p", "q", "r"),
        output_capacity=9,
        resource_groups=(ResourceGroup(name="gpu"),),
    )


def test_the_stage_that_has_waited_longest_for_its_group_is_next() -> None:
    """None is passed by those that come back again and again."""
    pipe = opened(three_on_one_gpu())
    pipe.latch("a", "key", 1)
    for sequence in range(8):
        pipe.push("a", sequence, a=1, b=1, c=1)
    pipe.run(8)
    assert [pipe.stage(work) for work in pipe.begun] == list("pqrpqrpqr")


def test_room_in_a_group_goes_on_to_who_can_use_it() -> None:
    """The stage whose turn it is has lost its only session just then; the next one begins."""
    pipe = opened(three_on_one_gpu(), "s", "t")
    for name in ("s", "t"):
        pipe.latch(name, "key", 1)
    pipe.push("s", 0, a=1)
    pipe.push("s", 0, b=1)
    pipe.push("t", 0, c=1)
    (running,) = pipe.running.values()
    pipe.fail(running, RuntimeError("planted"))
    assert [(pipe.stage(work), work.session) for work in pipe.running.values()] == [("r", "t")]


def test_several_stages_may_read_one_artifact() -> None:
    """Each takes it from an edge of its own."""
    graph = Graph(
        artifacts=tuple(Artifact(name=name) for name in ("in", "x", "y", "z")),
        stages=(
            Stage(id="first", consumes=("in",), produces=("x",)),
            Stage(id="left", consumes=("x",), produces=("y",)),
            Stage(id="right", consumes=("x",), produces=("z",)),
        ),
        edges=(
            Edge(artifact="in", target="first"),
            Edge(artifact="x", source="first", target="left"),
            Edge(artifact="x", source="first", target="right"),
        ),
        outputs=("y", "z"),
    )
    pipe = opened(graph)
    pipe.push("a", 0, **{"in": 1})
    pipe.run(3)
    output = pipe.take("a")
    assert output is not None
    assert set(output.values) == {"y", "z"}
