"""Which rules about API keys and allowances does the suite have to defend?"""

from __future__ import annotations

from scripts.mutation.mutant import Mutant

MUTANTS = (
    Mutant(
        name="allowance waits for a clock that was put back",
        file="draw_allowance",
        piece="if drawn > 0 or is_put_back then",
        instead="if drawn > 0 then",
        harm="A key is refused until the clock is where it was.",
    ),
    Mutant(
        name="a key's id given twice",
        file="add_key",
        piece="if known then return {'taken'} end",
        instead="",
        harm="A key that is made takes another one's place, and its holder is locked out.",
    ),
    Mutant(
        name="no limit of keys",
        file="add_key",
        piece="then return {'full'} end",
        instead="then end",
        harm="Every replica reads all keys every two seconds, however many there are.",
    ),
    Mutant(
        name="revoked key kept",
        file="revoke_key",
        piece="redis.call('HDEL', key('keys'), key_id)",
        instead="",
        harm="A key that leaked goes on to open everything.",
    ),
    Mutant(
        name="a bucket twice as large",
        file="draw_allowance",
        piece="tonumber(most)",
        instead="2 * tonumber(most)",
        harm="Whoever was away for long may do more at once than was set.",
    ),
    Mutant(
        name="clock put back takes from a bucket",
        file="draw_allowance",
        piece="math.max(now - number(at), 0)",
        instead="now - number(at)",
        harm="After a step of the server's clock nobody may do anything for as long.",
    ),
    Mutant(
        name="a portion taken out as one",
        file="draw_allowance",
        piece="level = level - drawn * 1000000",
        instead="level = level - 1000000",
        harm="A busy key passes its limit as often as portions are large.",
    ),
    Mutant(
        name="more drawn than there is",
        file="draw_allowance",
        piece="local drawn = math.min(tonumber(wanted), math.floor(level / 1000000))",
        instead="local drawn = tonumber(wanted)",
        harm="Each portion of each replica passes the limit.",
    ),
    Mutant(
        name="an act noted as often as it is told",
        file="note_act",
        piece="if fields[2] == 'act' and fields[#fields] == act_id then return {'noted'} end",
        instead="",
        harm="The trail says that an admin did twice what he did once.",
    ),
)
