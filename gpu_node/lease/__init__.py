"""Whose chunk runs next on the shared model?

Many sessions are resident on one model and only one may compute at a time. The right to submit the
next chunk is the *execution lease*: `core` decides who holds it and does nothing else, `turns`
makes sessions wait for it on the service loop and tells them where they stand. A service asks for
it with an attribute ``execution_lease = "node"`` (see ``gpu_node/services/README.md``); one that
brings its own policy keeps it.

A session is at each moment in one of five states::

    waiting ──control──> queued ──head of the line──> active
                           ^                            │ somebody else's turn
                           └────────control──────────── parked
    closing: from anywhere, and for good

**Who gets it.** First come, first served, by when a session both has something to say (a control)
and has room for what the model makes: a player whose next chunk is still untouched asks for none.
A grant *is* the beginning of a chunk, so whoever waited gets at least one, even if its control is
stale by then, and a lease never lies with somebody who doesn't use it.

**Who loses it.** Nobody in the middle of a chunk. At a chunk's end or later, when somebody waits:
the holder that has sent no control for its idle timeout (10 s; at exactly 10 s it is over). A
holder that keeps sending keeps the lease, for ever if need be. A service that doesn't want that
sets ``execution_lease_max_chunks``: then after so many chunks it is the next one's turn, and no
control is needed to stand in line. So the wait is bounded: those ahead × their chunks.

**The end.** A session that closes leaves the line at once, but what it holds it keeps until its
clean-up is confirmed: no other chunk runs while memory is still being let go of. Nothing leads out
of closing, whatever arrives meanwhile.

What is *not* stopped while a session waits for its turn: the session's time limit (it holds its
slot) and the rule that an absent controller ends it. What doesn't count the wait: the start limit
(a pipeline session is made without the lease), the play clock before the first frame, and any
watchdog of the model's progress, for a session in line isn't being computed.
"""
