"""Which rules of heartbeats does the suite have to defend?"""

from __future__ import annotations

from scripts.mutation.mutant import Mutant

MUTANTS = (
    Mutant(
        name="late beat believed",
        file="beat_node",
        piece="if number(n.stamp) >= tonumber(stamp) then return {'stale'} end",
        instead="",
        harm="A beat that was overtaken takes sessions away which the node has accepted since.",
    ),
    Mutant(
        name="stamp not compared",
        file="beat_node",
        piece="if acked and number(acked) < tonumber(stamp) then",
        instead="if acked then",
        harm="A session that was accepted this instant is taken for lost.",
    ),
    Mutant(
        name="unaccepted taken for lost",
        file="beat_node",
        piece="if acked and number(acked) < tonumber(stamp) then",
        instead="if number(acked) < tonumber(stamp) then",
        harm="An assignment is called back before its node could hear of it.",
    ),
    Mutant(
        name="lease not renewed by a beat",
        file="beat_node",
        piece="redis.call('ZADD', key('nodes'), rt + number(n.ttl), nid)",
        instead="",
        harm="Every node is declared dead ten seconds after it came.",
    ),
    Mutant(
        name="dead node let back in by its beat",
        file="beat_node",
        piece=" or n.state == 'dead' then",
        instead=" then",
        harm="A node is filled again while its sessions are still being returned.",
    ),
    Mutant(
        name="kill list dropped",
        file="beat_node",
        piece="kills[#kills + 1] = {member.sid, member.epoch, s[2]}",
        instead="kills = kills",
        harm="A session that was cancelled plays on if one hint is lost.",
    ),
    Mutant(
        name="leftovers not killed",
        file="beat_node",
        piece="kills[#kills + 1] = {item[1], item[2], 'fenced'}",
        instead="kills = kills",
        harm="A runner of a session that went elsewhere holds its memory for ever.",
    ),
    Mutant(
        name="to-do list dropped",
        file="beat_node",
        piece="todo[#todo + 1] = {member.sid, member.epoch}",
        instead="todo = todo",
        harm="If its hint is lost, an assignment is never heard of.",
    ),
    Mutant(
        name="end in a beat ignored",
        file="beat_node",
        piece="    finish(item[1], item[3], nil, false)\n",
        instead="",
        harm="An end whose call was lost is taken for a lost session and played again.",
    ),
    Mutant(
        name="presence timers run while media is out",
        file="include/presence",
        piece="set_deadlines(member.sid, {controller = false, room_empty = false})",
        instead="local _ = member",
        harm="When LiveKit is down for a minute, everybody is thrown out as absent.",
    ),
    Mutant(
        name="absence begins anew with each beat",
        file="include/presence",
        piece="elseif media_ok and connected and not at.controller then",
        instead="elseif media_ok and connected then",
        harm="A room without its controller is never closed.",
    ),
    Mutant(
        name="joining limit outlives the joining",
        file="include/presence",
        piece="if connected then changes.joining = false end",
        instead="",
        harm="Sessions with a slow service are taken back while it starts.",
    ),
    Mutant(
        name="any end in a beat believed",
        file="beat_node",
        piece="  if may_end(nid, item[1], item[2]) then",
        instead="  if redis.call('EXISTS', key('s', item[1])) == 1 then",
        harm="The repeated end of an earlier assignment ends the session where it plays now.",
    ),
    Mutant(
        name="what is missing in a grace is taken for lost",
        file="beat_node",
        piece="elseif not here and not in_grace() then",
        instead="elseif not here then",
        harm="After a failover sessions return to the line that play elsewhere.",
    ),
    Mutant(
        name="mates of the last crash remembered",
        file="beat_node",
        piece="if n.mates and number(capacity) > 0 then forget_mates(nid) end",
        instead="",
        harm="The next crash blames by the number of those who were there in the last one.",
    ),
    Mutant(
        name="presence not noted",
        file="beat_node",
        piece="if item[3] then note_presence(",
        instead="if false then note_presence(",
        harm="Nobody notices that a controller has left.",
    ),
    Mutant(
        name="room without people stays",
        file="include/presence",
        piece="    changes.room_empty = due(s[6])",
        instead="    changes.room_empty = nil",
        harm="An empty room holds its slot to the end of the session.",
    ),
)
