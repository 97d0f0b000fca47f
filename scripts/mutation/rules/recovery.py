"""Which rules of coming back, from lost data and lost seconds, does the suite have to defend?"""

from __future__ import annotations

from scripts.mutation.mutant import Mutant

MUTANTS = (
    Mutant(
        name="what registers without a session in a grace loses it",
        file="register_node",
        piece="elseif not in_grace() then",
        instead="elseif true then",
        harm="A copy in the line gets an epoch above that of whoever plays the session.",
    ),
    Mutant(
        name="hold never over",
        file="include/generation",
        piece="if rt < tonumber(pool.hold) then return true end",
        instead="if true then return true end",
        harm="After each restart of Redis everybody waits for a whole lease.",
    ),
    Mutant(
        name="free nodes of the run before",
        file="include/generation",
        piece="  redis.call('DEL', key('free'))",
        instead="",
        harm="A node is offered that nobody has heard of since Redis came back.",
    ),
    Mutant(
        name="picture not restored",
        file="include/bundle",
        piece="if redis.call('PERSIST', key('a', sid)) == 1 then",
        instead="if false then",
        harm="A minute after the adoption the session's picture is gone.",
    ),
    Mutant(
        name="texts not restored",
        file="include/bundle",
        piece="if #bundle.texts > 0 then",
        instead="if false then",
        harm="Nobody knows whose session it is.",
    ),
    Mutant(
        name="idempotency key taken from the new session",
        file="include/bundle",
        piece="redis.call('SETNX', key('idem', idem), bundle.print)",
        instead="redis.call('SET', key('idem', idem), bundle.print)",
        harm="A client that asked again finds somebody's earlier session under its key.",
    ),
    Mutant(
        name="adopted without its step's limit",
        file="adopt_session",
        piece="if state == 'joining_room' then deadlines.joining = due(s[1]) end",
        instead="",
        harm="A session that was joining when data was lost may join for ever.",
    ),
    Mutant(
        name="presence from before the loss",
        file="adopt_session",
        piece="redis.call('HDEL', record, 'connected', 'controller', 'participants')",
        instead="redis.call('EXISTS', record)",
        harm="A controller that has left since is never missed.",
    ),
    Mutant(
        name="paused limit lost by an adoption",
        file="adopt_session",
        piece="if state == 'running' then left = left or tonumber(s[3] or nil) end",
        instead="",
        harm="A session that was returned once and then adopted has no limit any more.",
    ),
    Mutant(
        name="ending session adopted as running",
        file="adopt_session",
        piece="local is_ending = known[1] == 'draining'",
        instead="local is_ending = false",
        harm="What its client has ended plays on.",
    ),
    Mutant(
        name="rebased in a grace",
        file="rebase_epoch",
        piece="if in_grace() then return {'wait'} end",
        instead="",
        harm="The node that plays the session by right loses it to one that had it earlier.",
    ),
    Mutant(
        name="rebased below what was seen",
        file="rebase_epoch",
        piece="fold_number('epoch', seen)\n",
        instead="",
        harm="The owner stays shut out of its own room.",
    ),
    Mutant(
        name="epoch before a rebase forgotten",
        file="rebase_epoch",
        piece="'epoch', above, 'rebased', epoch)",
        instead="'epoch', above)",
        harm="An answer that got lost costs the session its node.",
    ),
    Mutant(
        name="epoch before a rebase good for ever",
        file="include/ending",
        piece=", 'participants', 'rebased')",
        instead=", 'participants')",
        harm="Leftovers of an earlier assignment are taken for the present one.",
    ),
    Mutant(
        name="seconds before the give-back charged",
        file="give_back",
        piece="rt - tonumber(unplayed_ms)",
        instead="rt",
        harm="Half a minute without a room is taken off the user's limit.",
    ),
    Mutant(
        name="a failed start charged",
        file="include/ending",
        piece="if s[1] ~= 'running' and s[9] then served_until = number(s[9]) end",
        instead="",
        harm="Two minutes in which a world didn't start are taken off the user's limit.",
    ),
    Mutant(
        name="limit fires on a silent node",
        file="sweep_deadlines",
        piece="if rt - number(n[1]) > number(n[2]) * SILENT_SHARE then",
        instead="if false then",
        harm="A session whose node has just died is told that its time was up.",
    ),
    Mutant(
        name="schema taken back",
        file="include/generation",
        piece="if tonumber(pool.schema or 0) < SCHEMA then",
        instead="if true then",
        harm="A release two steps away is let in while a newer one runs.",
    ),
)
