"""Are a pipeline's figures right, cheap and of a fixed size?"""

from __future__ import annotations

from tests.support.graphs import one_stage, world_graph
from tests.support.simulated_pipeline import SimulatedPipeline


def test_what_a_stage_waited_for_is_told_in_seconds() -> None:
    """No session, no control, no room behind it, no turn in its group."""
    pipe = SimulatedPipeline(world_graph())
    pipe.run(2)
    pipe.open("a")
    pipe.push("a", 0, prompt="p")
    pipe.run(4)
    pipe.push("a", 0, control="c")
    pipe.run(10)
    idle = {
        step.stage.id: pipe.core.turns.lines[n].idle.report(pipe.now_s)
        for n, step in enumerate(pipe.plan.steps)
    }
    assert idle["denoise"]["no_session"] == 2
    assert idle["denoise"]["missing:control"] == 3
    assert idle["denoise"]["missing:condition"] == 1 + 9
    assert idle["decode"]["missing:latent"] == 5 + 8


def test_waiting_for_whoever_takes_the_outputs_is_told_apart_from_slowness() -> None:
    """The pipeline needs 1 s for 2 s of media: its factor is 0.5, however late they are taken."""
    pipe = SimulatedPipeline(one_stage())
    pipe.open("a", chunk_media_s=2.0)
    for sequence in range(20):
        assert pipe.push("a", sequence, a=1)
        pipe.run(7)
        assert pipe.take("a") is not None
    times = pipe.core.session("a").times
    assert times.real_time_factor() == 0.5
    assert times.chunk_period.report()["p50"] == 7.0
    assert times.first_output_s == 1.0


def test_waiting_for_a_turn_counts_as_slowness() -> None:
    """Four sessions on a stage that could serve one: each gets a quarter of what it needs."""
    pipe = SimulatedPipeline(one_stage())
    names = ["a", "b", "c", "d"]
    for name in names:
        pipe.open(name, chunk_media_s=1.0)
    sent = dict.fromkeys(names, 0)
    for _ in range(60):
        for name in names:
            while pipe.push(name, sent[name], a=1):
                sent[name] += 1
            pipe.take(name)
        pipe.run(1)
    assert pipe.core.session("a").times.real_time_factor() == 4.0


def test_a_turn_looks_at_what_changed_and_not_at_everybody() -> None:
    """With 500 sessions at rest, one that plays causes no look at any other."""
    pipe = SimulatedPipeline(one_stage())
    for n in range(500):
        pipe.open(f"idle{n}")
    pipe.open("busy")
    looks = 0

    def counting(number: int) -> tuple[str, int]:
        nonlocal looks
        looks += 1
        raise AssertionError(f"looked at a session at rest for stage {number}")

    for n in range(500):
        pipe.core.session(f"idle{n}").look = counting  # type: ignore[method-assign]
    for sequence in range(50):
        assert pipe.push("busy", sequence, a=1)
        pipe.run(1)
        assert pipe.take("busy") is not None
    assert looks == 0


def test_figures_don_t_grow_with_a_session_s_life() -> None:
    """Ten thousand chunks leave as much behind as a few hundred."""
    pipe = SimulatedPipeline(one_stage())
    pipe.open("a")
    for sequence in range(1000):
        pipe.push("a", sequence, a=1)
        pipe.run(1)
        pipe.take("a")
        pipe.begun.clear()
        pipe.news.clear()
    session = pipe.core.session("a")
    times = session.times
    assert times.chunk_work.count == 999
    assert len(times.chunk_work._newest) <= 256
    assert session.held == 0
    assert (session._anchors_s, session._outputs, session.progress[0].ahead) == ({}, {}, set())
    assert all(not edge._ahead for edge in session._edges)
