#!lua flags=allow-oom
-- A node's heartbeat: renews its lease, and registry and node converge in both directions.
-- Guarantee: beats of one life count in the order of their stamps (R7); only a session that was
-- accepted under a lower stamp can be missing from a beat; the reply is the delivery path.
-- Each resident is {sid, epoch} or {sid, epoch, connected, controller, participants, state}. Of that seen is a
-- digest of who is in the rooms, and said one of all the rest but the stamp; made by the node: it has the time.
-- KEYS: prefix
-- ARGV: now_ms, node_id, incarnation, stamp, state, capacity, draining, media_ok, residents, ended, gpus, said, seen
-- Touches: q, s:<sid>, sd:<sid>, sp:<sid>, a:<sid>, idem:<hash>, n:<nid>, ns:<nid>, nodes, free, dl, ctr, ev, holds, ended, id:<hash>
-- Replies: ok, same, stale, register
-- Fields: ok: owned, todo {sid, epoch} lists, kills {sid, epoch, reason}, adopt {sid, epoch}; same: none, it owns what it lists and nothing is to be done; and to both, while an operator has its sessions moved: ms until then; register: keep | drop
-- Publishes: w:<nid> assign; r:<replica>
-- Include: core, generation, settled, moving
local DISPATCH_BUDGET = 64
local nid, record = node_id, key('n', node_id)
local n = read_fields(record, {'inc', 'stamp', 'ttl', 'state', 'media_ok', 'beat', 'mates', 'gen', 'rest',
  'settled', 'settled_until', 'drain_at', 'capacity', 'draining', 'seen'})
local lease = redis.call('ZSCORE', key('nodes'), nid)
if not n.inc or tonumber(incarnation) > number(n.inc) then return {'register', 'keep'} end
if n.inc ~= incarnation or not lease or n.state == 'dead' then return {'register', 'drop'} end
if number(n.stamp) >= tonumber(stamp) then return {'stale'} end

keep_registry_time()
redis.call('HSET', record, 'stamp', stamp, 'beat', rt)
if not is_written(n) then
  redis.call('HSET', record, 'state', state, 'capacity', capacity, 'draining', draining, 'media_ok', media_ok,
    'gen', pool.gen)
end
redis.call('ZADD', key('nodes'), rt + number(n.ttl), nid)
if gpus ~= '' then redis.call('HSET', record, 'gpus', gpus) end     -- '' is no news
if n.state ~= state then node_changed(nid, 'node_' .. state) end
local settles = said .. ' ' .. text(redis.call('ZCARD', key('ns', nid)))
local is_same = is_settled(n, lease, settles)
if is_same and n.seen == seen then return with_move(n, {'same'}) end

-- Then include: deadlines, presence
if is_same then                                 -- but for who is in the rooms
  for _, item in ipairs(cjson.decode(residents)) do note_presence(item, media_ok == '1') end
  redis.call('HSET', record, 'seen', seen)
  return with_move(n, {'same'})
end

-- Then include: recent, slots, gaps, holds, blame, ending, durations, choice, dispatch, members, media, listed, missing, owner, adoption
if n.mates and number(capacity) > 0 then forget_mates(nid) end
local members, has_left = members_of(nid), false
local list, is_rebased = follow_rebases(nid, cjson.decode(residents), members)
local listed = assignments(list)
fold_number('epoch', highest_epoch(list))
for _, item in ipairs(cjson.decode(ended)) do   -- the first word of this end may have been lost
  if may_end(nid, item[1], item[2]) then
    finish(item[1], item[3], nil, false)
    has_left = true
  end
end
if has_left then members = members_of(nid) end
if let_missing_go(nid, members, listed, tonumber(stamp), number(n.beat)) then members = members_of(nid) end

local owned, todo, kills, adopt, known, kept, strangers = {}, {}, {}, {}, {}, 0, 0
for _, member in ipairs(members) do
  local name = assignment(member.sid, member.epoch)
  if member.quarantined then
    known[name] = 'quarantined'
    if listed[name] then kept = kept + 1 end
  else
    local s = redis.call('HMGET', key('s', member.sid), 'state', 'reason')
    known[name] = s[1]
    owned[#owned + 1] = {member.sid, member.epoch}
    if s[1] == 'draining' then
      kills[#kills + 1] = {member.sid, member.epoch, s[2]}
    elseif s[1] == 'assigned' and not listed[name] then
      todo[#todo + 1] = {member.sid, member.epoch}
    end
  end
end
for _, item in ipairs(list) do
  local state_here = known[assignment(item[1], item[2])]
  if not state_here then strangers = strangers + 1 end
  if state_here and state_here ~= 'quarantined' then
    note_presence(item, media_ok == '1')
    if is_behind(state_here, item[6]) then adopt[#adopt + 1] = {item[1], item[2]} end
  elseif may_adopt(nid, item[1], item[2]) then
    adopt[#adopt + 1] = {item[1], item[2]}
  else
    kills[#kills + 1] = {item[1], item[2], 'fenced'}
  end
end
-- What the node holds by its own word, for whoever compares: all, quarantined here, not its own.
redis.call('HSET', record, 'listed', #list, 'kept', kept, 'strangers', strangers)
follow_media(nid, n.media_ok == '1', media_ok == '1')
local is_quiet = #todo + #kills + #adopt == 0 and #list == #members and not is_rebased
settle(nid, n, is_quiet and n.media_ok == '1' and media_ok == '1', settles)
refresh_free(nid)
dispatch(DISPATCH_BUDGET)
local reply = {'ok', owned, todo, kills, adopt}
return with_move(n, reply)
