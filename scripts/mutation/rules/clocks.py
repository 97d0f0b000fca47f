"""Which rules of clocks, numbers and lost writes does the suite have to defend?"""

from __future__ import annotations

from scripts.mutation.mutant import Mutant

MUTANTS = (
    Mutant(
        name="registry time jumps ahead",
        file="include/core",
        piece="math.min(math.max(now - tonumber(pool.rt_wall or now), 0), 2000)",
        instead="math.max(now - tonumber(pool.rt_wall or now), 0)",
        harm="A corrected clock or a pause of Redis fires every deadline at once.",
    ),
    Mutant(
        name="registry time goes back",
        file="include/core",
        piece="math.min(math.max(now - tonumber(pool.rt_wall or now), 0), 2000)",
        instead="math.min(now - tonumber(pool.rt_wall or now), 2000)",
        harm="A clock set back by an hour gives dead nodes another hour.",
    ),
    Mutant(
        name="numbers follow the clock alone",
        file="include/core",
        piece="math.max(last_number(name) + 1, now, (at_least or 0) + 1)",
        instead="math.max(now, (at_least or 0) + 1)",
        harm="Two sessions get one ticket, and after a step back newcomers overtake.",
    ),
    Mutant(
        name="numbers seen elsewhere are issued again",
        file="include/core",
        piece="if tonumber(seen) > last_number(name) then",
        instead="if name == 'top' and tonumber(seen) > last_number(name) then",
        harm="After lost writes an epoch that is still being played is given to somebody else.",
    ),
    Mutant(
        name="no grace after a failover",
        file="include/generation",
        piece="return rt < tonumber(pool.grace or 0)",
        instead="return false",
        harm="A server that restarts with old data declares everybody dead.",
    ),
    Mutant(
        name="no hold after a failover",
        file="include/generation",
        piece="if rt < tonumber(pool.hold) then return true end",
        instead="if true then return false end",
        harm="Slots are given away that somebody still plays in.",
    ),
    Mutant(
        name="hold waits for nobody",
        file="include/generation",
        piece="if not is_of_this_generation(redis.call('HGET', key('n', nid), 'gen')) then "
        "return true end",
        instead="",
        harm="The line moves before all nodes have said what they hold.",
    ),
    Mutant(
        name="old claim adopted",
        file="include/adoption",
        piece="return tonumber(epoch) > number(s[2]) and",
        instead="return",
        harm="A woken zombie takes its session back from the node that plays it now.",
    ),
    Mutant(
        name="ended session adopted",
        file="include/adoption",
        piece="and not MAY_BECOME.draining[s[1]] then return 'ended' end",
        instead="and not s[1] then return 'ended' end",
        harm="A session that has ended comes alive, and its client is gone.",
    ),
    Mutant(
        name="what a node still holds isn't counted",
        file="include/slots",
        piece="return redis.call('ZCARD', key('ns', nid)) + strangers",
        instead="return redis.call('ZCARD', key('ns', nid))",
        harm="Between a restart and the adoptions nodes are filled twice.",
    ),
    Mutant(
        name="deadlines fire in a grace",
        file="sweep_deadlines",
        piece="in_grace() and {} or ",
        instead="",
        harm="After a restart everybody who couldn't ask in time loses their place.",
    ),
    Mutant(
        name="nodes die in a grace",
        file="sweep_nodes",
        piece="in_grace() and {}\n  or ",
        instead="",
        harm="After a restart every node that couldn't beat in time is dead.",
    ),
    Mutant(
        name="higher claim doesn't free the slot of the lower",
        file="adopt_session",
        piece="  redis.call('ZREM', key('ns', known[2]), sid)\n",
        instead="",
        harm="One session holds two slots after a failover.",
    ),
    Mutant(
        name="adopted and still in line",
        file="adopt_session",
        piece="redis.call('ZREM', key('q'), sid)\n",
        instead="",
        harm="A session that plays is given to a second node.",
    ),
    Mutant(
        name="time since the bundle is free",
        file="adopt_session",
        piece="tonumber(kept.left) - tonumber(age_ms)",
        instead="tonumber(kept.left)",
        harm="Each failover gives everybody more than their limit.",
    ),
    Mutant(
        name="step behind isn't caught up",
        file="include/adoption",
        piece="STEP[known] < STEP[step]",
        instead="false",
        harm="A session plays, and its record says for ever that it is being assigned.",
    ),
)
