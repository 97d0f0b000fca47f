"""Whatever happens in whatever order, the lease keeps its promises."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from gpu_node.lease.core import LINGER_S, Change, ExecutionLease, LeaseState

NAMES = st.sampled_from("abcd")


class LeaseMachine(RuleBasedStateMachine):
    """Drives a lease beside what may be concluded from its answers alone."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0
        self.states: dict[str, LeaseState] = {}
        """As replayed from the answers."""
        self.line: list[str] = []
        self.busy: str | None = None
        self.used: set[str] = set()
        """Who has had a chunk since its grant."""
        self.max_chunks: int | None = None
        self.waited_chunks: dict[str, int] = {}
        self.wanting: set[str] = set()
        """Who has asked for a chunk and not got it."""
        self.bound: dict[str, int] = {}
        """How many chunks of others those in line may have to wait for."""

    @initialize(max_chunks=st.sampled_from([None, 1, 3]))
    def begin(self, max_chunks: int | None) -> None:
        """With either policy."""
        self.max_chunks = max_chunks
        self.lease = ExecutionLease(lambda: self.now_s, max_chunks=max_chunks)
        for name in "abcd":
            self.register(name, 10.0)

    def replay(self, changes: tuple[Change, ...]) -> None:
        """Follow what was told, and see that each step of it is allowed."""
        for change in changes:
            name, before = change.session_id, self.states[change.session_id]
            assert before is not LeaseState.CLOSING, "nothing leads out of closing"
            match change.state:
                case LeaseState.QUEUED:
                    self.line.append(name)
                    self.waited_chunks[name] = 0
                    self.bound[name] = len(self.line) * (self.max_chunks or 0)
                case LeaseState.ACTIVE:
                    assert self.line.pop(0) == name, "first come, first served"
                    assert self.busy is None, "nobody is interrupted"
                    self.busy = name
                    self.used.discard(name)
                    assert self.max_chunks is None or self.waited_chunks[name] <= self.bound[name]
                case _ if before is LeaseState.QUEUED:
                    self.line.remove(name)
                case LeaseState.PARKED:
                    assert self.busy != name, "a chunk in flight is never interrupted"
                    assert name in self.used, "whoever was granted the lease had a chunk"
                case _:
                    pass
            self.states[name] = change.state

    def ended(self, name: str) -> None:
        """A chunk is over, well or not."""
        self.busy = None
        self.used.add(name)
        self.wanting.discard(name)

    @rule(name=NAMES, idle_timeout_s=st.sampled_from([1.0, 10.0]))
    def come_again(self, name: str, idle_timeout_s: float) -> None:
        self.register(name, idle_timeout_s)

    def register(self, name: str, idle_timeout_s: float) -> None:
        if name not in self.states:
            self.lease.register(name, idle_timeout_s)
            self.states[name] = LeaseState.WAITING

    @rule(name=NAMES)
    def press(self, name: str) -> None:
        self.replay(self.lease.record_activity(name))

    @rule(name=NAMES)
    def press_and_ask(self, name: str) -> None:
        self.press(name)
        self.ask(name)

    @rule()
    def everybody_plays(self) -> None:
        """So that there is a crowd now and then."""
        for name in sorted(self.states):
            self.press_and_ask(name)

    @rule(name=NAMES)
    def ask(self, name: str) -> None:
        if name in self.states:
            if self.states[name] is not LeaseState.CLOSING:
                self.wanting.add(name)
            self.replay(self.lease.ask(name))
            if self.lease.is_busy(name):
                self.busy = name

    @precondition(lambda self: self.busy is not None)
    @rule(counts=st.sampled_from([True, True, False]))
    def finish(self, counts: bool) -> None:
        if (name := self.busy) is not None:
            self.ended(name)
            for waiting in self.line:
                self.waited_chunks[waiting] += counts
            self.replay(self.lease.finish_chunk(name, counts=counts))

    @rule(name=NAMES)
    def abort(self, name: str) -> None:
        if self.busy == name:
            self.ended(name)
        self.wanting.discard(name)
        self.replay(self.lease.abort_chunk(name))

    @rule(name=NAMES)
    def end_of_stream(self, name: str) -> None:
        if self.busy == name:
            self.ended(name)
            self.replay(self.lease.finish_chunk(name, counts=False))
        self.wanting.discard(name)
        self.replay(self.lease.abort_chunk(name))
        self.replay(self.lease.rest(name))

    @rule(name=NAMES)
    def deactivate(self, name: str) -> None:
        self.wanting.discard(name)
        self.replay(self.lease.deactivate(name))

    @rule(name=NAMES)
    def release(self, name: str) -> None:
        if self.states.get(name) is LeaseState.CLOSING:
            if self.busy == name:
                self.busy = None
            del self.states[name]
            self.replay(self.lease.release(name))

    @rule(seconds=st.sampled_from([0.01, 0.05, 1.0, 9.0, 10.0]))
    def time_passes(self, seconds: float) -> None:
        """The driver's timer never lets a deadline pass."""
        until_s = self.now_s + seconds
        while (deadline_s := self.lease.deadline_s) is not None and deadline_s <= until_s:
            self.now_s = max(self.now_s, deadline_s)
            self.replay(self.lease.yield_if_idle())
        self.now_s = until_s

    @invariant()
    def what_was_told_is_true(self) -> None:
        """No change went untold: a grant that nobody hears of would be a lost wake-up."""
        for name, state in self.states.items():
            assert self.lease.state_of(name) is state
        for place, name in enumerate(self.line, 1):
            assert self.lease.position(name) == place

    @invariant()
    def there_is_one_holder_or_none(self) -> None:
        """Active is whoever holds it; a closing holder holds it alone."""
        active = [name for name, state in self.states.items() if state is LeaseState.ACTIVE]
        holder = self.lease.holder if hasattr(self, "lease") else None
        assert len(active) <= 1
        assert not active or active == [holder]
        assert holder is None or self.states[holder] in (LeaseState.ACTIVE, LeaseState.CLOSING)
        assert self.busy in (None, holder)

    @invariant()
    def nobody_waits_for_nothing(self) -> None:
        """Whoever is in line waits for a holder, whose turn ends by a call or by a deadline."""
        if self.line:
            holder = self.lease.holder
            assert holder is not None
            if self.busy is None and self.states[holder] is not LeaseState.CLOSING:
                assert self.lease.deadline_s is not None

    @invariant()
    def nobody_is_forgotten_under_a_maximum_hold(self) -> None:
        """Whoever wants a chunk stands in line, and the holder can't be slow for ever."""
        if self.max_chunks is None:
            return
        assert self.wanting <= {*self.line, self.busy}
        deadline_s = self.lease.deadline_s
        assert deadline_s is None or deadline_s <= self.now_s + LINGER_S


LeaseMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)


class TestLease(LeaseMachine.TestCase):  # type: ignore[misc,valid-type]
    """One holder; FIFO; one chunk for sure; closing absorbing; no lost wake-up; bounded wait."""
