"""Which rules of the line does the suite have to defend?"""

from __future__ import annotations

from scripts.mutation.mutant import Mutant

MUTANTS = (
    Mutant(
        name="ticket re-issued on return",
        file="include/ending",
        piece="redis.call('ZADD', key('q'), s[4], sid)",
        instead="s[4] = next_number('ticket')\n"
        "  redis.call('HSET', record, 'ticket', s[4])\n"
        "  redis.call('ZADD', key('q'), s[4], sid)",
        harm="Whoever lost their node stands at the end of the line again.",
    ),
    Mutant(
        name="returned to the front, whatever the ticket",
        file="include/ending",
        piece="redis.call('ZADD', key('q'), s[4], sid)",
        instead="redis.call('ZADD', key('q'), 0, sid)",
        harm="Those who come back together lose their order among themselves.",
    ),
    Mutant(
        name="newcomer first",
        file="include/dispatch",
        piece="redis.call('ZRANGE', key('q'), 0, 0)[1]",
        instead="redis.call('ZRANGE', key('q'), -1, -1)[1]",
        harm="The last to come is served first.",
    ),
    Mutant(
        name="free only what was freed in this call",
        file="include/slots",
        piece="return has_freed or redis.call('EXISTS', key('free')) == 1",
        instead="return has_freed",
        harm="Somebody comes, a slot is free, and nobody is served until a node beats.",
    ),
    Mutant(
        name="line's size counts those who came back",
        file="open_session",
        piece="redis.call('ZCOUNT', key('q'), '(' .. text(top), '+inf')",
        instead="redis.call('ZCARD', key('q'))",
        harm="After a node's death newcomers are refused though the line has room for them.",
    ),
    Mutant(
        name="free slot counted as theirs by those behind a line",
        file="open_session",
        piece="redis.call('ZCARD', key('q')) == 0 and not is_held() and pick_node({nodes = {}})",
        instead="pick_node({nodes = {}})",
        harm="With a full line a newcomer is taken in because of a slot that somebody else gets.",
    ),
    Mutant(
        name="highest ticket served is forgotten",
        file="include/dispatch",
        piece="  fold_number('top', s.ticket)\n",
        instead="",
        harm="Those who came back take the places of newcomers.",
    ),
    Mutant(
        name="idempotency fingerprint unchecked",
        file="open_session",
        piece="if print ~= fingerprint then return {'conflict'} end",
        instead="",
        harm="A key that is used for another request answers with the wrong session.",
    ),
    Mutant(
        name="idempotency key forgets its session at the end",
        file="include/ending",
        piece="if s[5] then redis.call('PEXPIRE', key('idem', s[5]), RETENTION_MS) end",
        instead="if s[5] then redis.call('DEL', key('idem', s[5])) end",
        harm="A late repeat of a request that has ended opens a second session.",
    ),
    Mutant(
        name="asking puts a deadline on those who are served",
        file="touch_sessions",
        piece="if s[1] == 'queued' and due(s[2]) then",
        instead="if due(s[2]) then",
        harm="Who plays and doesn't poll is thrown out as if they had left the line.",
    ),
    Mutant(
        name="asking is no sign of life",
        file="touch_sessions",
        piece="    set_deadlines(sid, {queued = due(s[2])})\n",
        instead="",
        harm="A client that polls all the time is dropped from the line as silent.",
    ),
    Mutant(
        name="refused session keeps its image",
        file="open_session",
        piece="    drop_unclaimed_image()\n    return {'full'}",
        instead="    return {'full'}",
        harm="A minute of refused requests fills the memory with images.",
    ),
    Mutant(
        name="image bytes not given back",
        file="include/ending",
        piece="    redis.call('HINCRBY', CTR, 'image_bytes', -bytes)\n",
        instead="",
        harm="After some days no image is taken any more.",
    ),
    Mutant(
        name="ended while waiting, still in line",
        file="include/ending",
        piece="  redis.call('ZREM', key('q'), sid)\n  if not quarantine then",
        instead="  if not quarantine then",
        harm="Somebody who has left holds up the line and is given a slot.",
    ),
    Mutant(
        name="served, still in line",
        file="include/dispatch",
        piece="  redis.call('ZREM', key('q'), sid)\n  redis.call('ZADD', key('ns', nid)",
        instead="  redis.call('ZADD', key('ns', nid)",
        harm="One session is given two slots.",
    ),
    Mutant(
        name="whoever comes during a hold counts on a slot",
        file="open_session",
        piece=" and not is_held() and",
        instead=" and",
        harm="With no line allowed, people are taken in whom nobody may serve yet.",
    ),
    Mutant(
        name="image budget unlimited",
        file="put_image",
        piece="if held + #image > tonumber(budget_bytes) then return {'over'} end",
        instead="",
        harm="Redis runs out of memory for sessions because of images.",
    ),
    Mutant(
        name="image of an open session forgotten",
        file="open_session",
        piece="if redis.call('PERSIST', key('a', sid)) == 1 then",
        instead="if redis.call('EXISTS', key('a', sid)) == 1 then",
        harm="Whoever waits for more than a minute plays without the image that they sent.",
    ),
    Mutant(
        name="taken out of line though served meanwhile",
        file="cancel_waiting",
        piece="if state ~= 'queued' then",
        instead="if not MAY_BECOME.draining[state] then",
        harm="An operator who clears the line ends somebody who has just begun to play.",
    ),
    Mutant(
        name="followers aren't told",
        file="include/core",
        piece="    redis.call('PUBLISH', key('r', replica), sid)\n",
        instead="",
        harm="A page learns of its turn only when it happens to ask.",
    ),
)
