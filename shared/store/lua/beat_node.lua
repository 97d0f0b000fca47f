#!lua flags=allow-oom
-- A node's heartbeat: renews its lease, and registry and node converge in both directions.
-- Guarantee: beats of one life count in the order of their stamps (R7); only a session that was
-- accepted under a lower stamp can be missing from a beat; the reply is the delivery path.
-- Each resident is {sid, epoch} or {sid, epoch, connected, controller, participants, state}.
-- KEYS: prefix
-- ARGV: now_ms, node_id, incarnation, stamp, state, capacity, draining, media_ok, residents, ended
-- Touches: q, s:<sid>, sd:<sid>, sp:<sid>, a:<sid>, idem:<hash>, n:<nid>, ns:<nid>, nodes, free, dl, ctr, ev, holds, ended, id:<hash>
-- Replies: ok, stale, register
-- Fields: ok: owned, todo {sid, epoch} lists, kills {sid, epoch, reason}, adopt {sid, epoch}; register: keep | drop
-- Publishes: w:<nid> assign; r:<replica>
-- Include: core, generation, recent, deadlines, slots, holds, blame, ending, choice, dispatch, members, listed, presence, owner, adoption
local DISPATCH_BUDGET = 64

local nid, record = node_id, key('n', node_id)
local n = redis.call('HMGET', record, 'inc', 'stamp', 'ttl', 'state', 'media_ok', 'beat', 'mates')
local lease = redis.call('ZSCORE', key('nodes'), nid)
if not n[1] or tonumber(incarnation) > number(n[1]) then return {'register', 'keep'} end
if n[1] ~= incarnation or not lease or n[4] == 'dead' then return {'register', 'drop'} end
if number(n[2]) >= tonumber(stamp) then return {'stale'} end

keep_registry_time()
redis.call('HSET', record, 'stamp', stamp, 'state', state, 'capacity', capacity, 'draining', draining,
  'media_ok', media_ok, 'beat', rt, 'gen', pool.gen)
redis.call('ZADD', key('nodes'), rt + number(n[3]), nid)
if n[4] ~= state then
  redis.call('XADD', key('ev'), 'MAXLEN', '~', EVENTS_KEPT, '*', 'what', 'node_' .. state, 'node', nid,
    'at', now)
end
if n[7] and number(capacity) > 0 then forget_mates(nid) end

local members                                   -- read again only if one of them has left
local function present()
  members = members or members_of(nid)
  return members
end
local list = follow_rebases(nid, cjson.decode(residents), present())
local listed = assignments(list)
fold_number('epoch', highest_epoch(list))

for _, item in ipairs(cjson.decode(ended)) do   -- the first word of this end may have been lost
  if may_end(nid, item[1], item[2]) then
    finish(item[1], item[3], nil, false)
    members = nil
  end
end
for _, member in ipairs(present()) do
  local here = listed[assignment(member.sid, member.epoch)]
  if member.quarantined then
    if not here and number(redis.call('HGET', record, '!' .. member.sid)) < tonumber(stamp) then
      release_quarantine(nid, member.sid)
      members = nil
    end
  elseif not here and not in_grace() then       -- in a grace it may be elsewhere, under a higher epoch
    local acked = redis.call('HGET', key('s', member.sid), 'acked')
    if acked and number(acked) < tonumber(stamp) then
      return_to_line(member.sid, 'node_lost_it', 1, number(n[6]), false)
      members = nil
    end
  end
end

local owned, todo, kills, adopt, known, kept, strangers = {}, {}, {}, {}, {}, 0, 0
for _, member in ipairs(present()) do
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
    if item[3] then note_presence(item[1], item[3], item[4], item[5], media_ok == '1') end
    if is_behind(state_here, item[6]) then adopt[#adopt + 1] = {item[1], item[2]} end
  elseif may_adopt(nid, item[1], item[2]) then
    adopt[#adopt + 1] = {item[1], item[2]}
  else
    kills[#kills + 1] = {item[1], item[2], 'fenced'}
  end
end
-- What the node holds by its own word, for whoever compares: all, quarantined here, not its own.
redis.call('HSET', record, 'listed', #list, 'kept', kept, 'strangers', strangers)
follow_media(nid, n[5] == '1', media_ok == '1')
refresh_free(nid)
dispatch(DISPATCH_BUDGET)
return {'ok', owned, todo, kills, adopt}
