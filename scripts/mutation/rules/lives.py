"""Which rules of a node's lives and deaths does the suite have to defend?"""

from __future__ import annotations

from scripts.mutation.mutant import Mutant

MUTANTS = (
    Mutant(
        name="previous life not waited for",
        file="register_node",
        piece="if lease and (is_older or dying) then",
        instead="if false then",
        harm="Two processes with one name play on the same GPU.",
    ),
    Mutant(
        name="replaced life not told to exit",
        file="register_node",
        piece="if lease and is_older and number(previous) > 0 then return {'superseded'} end",
        instead="",
        harm="Two processes take the node id from each other for ever.",
    ),
    Mutant(
        name="a process replaced by a copy of its own call",
        file="register_node",
        piece=" and not outlives(boot_id, known[1])",
        instead="",
        harm="A late duplicate of a registration ends the node that sent it.",
    ),
    Mutant(
        name="a repeat begins another life",
        file="register_node",
        piece="if lease and not dying and known[1] == boot_id then",
        instead="if false then",
        harm="A node whose answer was lost can't register, because it waits for itself.",
    ),
    Mutant(
        name="dead node's sessions dropped",
        file="sweep_nodes",
        piece="  if evacuate(nid, 'node_died', true, lost_at, left, returned, ended) then",
        instead="  redis.call('DEL', key('ns', nid))\n  if lost_at then",
        harm="Whoever was on a machine that died is never served again.",
    ),
    Mutant(
        name="deaths per second unbounded",
        file="sweep_nodes",
        piece="local allowed = math.max(2, math.floor(redis.call('ZCARD', key('nodes')) / 10))",
        instead="local allowed = 1000",
        harm="One hiccup of the judge's throws everybody off the stage.",
    ),
    Mutant(
        name="dispatch between two parts of an evacuation",
        file="sweep_nodes",
        piece="if not more then dispatch(DISPATCH_BUDGET) end",
        instead="dispatch(DISPATCH_BUDGET)",
        harm="Some of a dead node's sessions are overtaken by younger ones.",
    ),
    Mutant(
        name="dead nodes stay in the list",
        file="sweep_nodes",
        piece="    redis.call('ZREM', key('nodes'), nid)\n",
        instead="",
        harm="The same death is counted with every sweep, and its node can't come back.",
    ),
    Mutant(
        name="budget of a sweep ignored",
        file="sweep_deadlines",
        piece="if i > budget_left then break end",
        instead="",
        harm="One call may keep Redis from everybody else for as long as it likes.",
    ),
    Mutant(
        name="retired node's sessions dropped",
        file="retire_node",
        piece="evacuate(node_id, 'node_shutdown', false, rt, ALL, {}, {})",
        instead="redis.call('DEL', key('ns', node_id))",
        harm="Whoever was on a node that was shut down is never served again.",
    ),
    Mutant(
        name="any life may retire the node",
        file="retire_node",
        piece="if redis.call('HGET', key('n', node_id), 'inc') ~= incarnation\n  or not",
        instead="if not",
        harm="A late goodbye takes the sessions of the next life away.",
    ),
    Mutant(
        name="record of a living node expires",
        file="register_node",
        piece="redis.call('PERSIST', record)\n",
        instead="",
        harm="A node that came back is unknown a day after its death.",
    ),
    Mutant(
        name="what the process lost isn't returned",
        file="register_node",
        piece="elseif not in_grace() then\n      return_to_line(",
        instead="elseif false then\n      return_to_line(",
        harm="Sessions that a restarted process doesn't know wait for its next beat to be missed.",
    ),
    Mutant(
        name="fresh process keeps the strikes",
        file="register_node",
        piece="if number(previous) == 0 then clear_strikes(nid) else refresh_free(nid) end",
        instead="refresh_free(nid)",
        harm="A node that was repaired and restarted still rests.",
    ),
    Mutant(
        name="what a new life lists isn't counted",
        file="register_node",
        piece="'strangers', strangers)",
        instead="'strangers', 0)",
        harm="A node is overfilled between its registration and its first beat.",
    ),
)
