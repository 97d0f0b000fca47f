#!lua flags=allow-oom
-- Begin a life of a node (R11).
-- Guarantee: a repeat with the same boot id answers the same; two processes never hold one node id
-- at once: the younger waits for the older one's lease, a life that was replaced is told to exit, but
-- none by a late copy of its own process's earlier call.
-- KEYS: prefix
-- ARGV: now_ms, node_id, boot_id, previous, ttl_ms, capacity, state, profile, start_ms, session_capacity, options, residents
-- Touches: q, s:<sid>, sd:<sid>, sp:<sid>, a:<sid>, idem:<hash>, n:<nid>, ns:<nid>, nodes, free, dl, ctr, ev, holds, ended, id:<hash>
-- Replies: registered, wait, superseded
-- Fields: registered: incarnation, list of kept {sid, epoch}; wait: ms
-- Publishes: w:<nid> assign; r:<replica>
-- Include: core, generation, recent, deadlines, slots, gaps, holds, blame, ending, durations, choice, dispatch, members, listed
local DISPATCH_BUDGET = 64

local nid, record = node_id, key('n', node_id)
local lease = tonumber(redis.call('ZSCORE', key('nodes'), nid) or nil)
local known = redis.call('HMGET', record, 'boot', 'inc', 'state', 'beat')
local dying = known[3] == 'dead'                -- its sessions are still being returned
local list = follow_rebases(nid, cjson.decode(residents))
local listed = assignments(list)

-- What stays with the node, and how many of those that it lists aren't known to be there.
local function kept_members()
  local kept, strangers = {}, #list
  for _, member in ipairs(members_of(nid)) do
    if listed[assignment(member.sid, member.epoch)] then
      strangers = strangers - 1
      if not member.quarantined then kept[#kept + 1] = {member.sid, member.epoch} end
    end
  end
  return kept, strangers
end

if lease and not dying and known[1] == boot_id then
  return {'registered', known[2], (kept_members())}
end

-- A boot id names process and number, "<process>.<n>". A copy of an earlier registration that comes
-- after that life's death begins another one, which the process knows nothing of and outlives.
local function outlives(boot, other)
  local process, n = string.match(boot, '^(.+)%.(%d+)$')
  local same, m = string.match(other or '', '^(.+)%.(%d+)$')
  return process ~= nil and process == same and tonumber(n) > tonumber(m)
end

local is_older = number(previous) < number(known[2]) and not outlives(boot_id, known[1])
if lease and is_older and number(previous) > 0 then return {'superseded'} end
if lease and (is_older or dying) then
  keep_registry_time()
  return {'wait', text(math.max(lease - rt, 100))}
end

keep_registry_time()
local kept, strangers = kept_members()
for _, member in ipairs(members_of(nid)) do     -- the same process lost these by itself
  if not listed[assignment(member.sid, member.epoch)] then
    if member.quarantined then
      release_quarantine(nid, member.sid)
    elseif not in_grace() then
      return_to_line(member.sid, 'node_lost_it', 0, number(known[4]), false)
    elseif redis.call('HEXISTS', key('s', member.sid), 'acked') == 1 then
      redis.call('HSET', key('s', member.sid), 'acked', 0)   -- the first beat after the grace decides
    end
  end
end
note_schema()
forget_mates(nid)
for _, name in ipairs({'epoch', 'ticket'}) do fold_number(name, highest_epoch(list)) end
local inc = next_number('inc', number(previous))
redis.call('HSET', CTR, 'ttl', ttl_ms)
redis.call('HSET', record, 'boot', boot_id, 'inc', inc, 'state', state, 'capacity', capacity,
  'draining', 0, 'media_ok', 1, 'profile', profile, 'start_ms', start_ms,
  'session_capacity', session_capacity, 'options', options, 'stamp', 0, 'ttl', ttl_ms,
  'beat', rt, 'registered', now, 'gen', redis.call('HGET', CTR, 'gen'),
  'strangers', strangers)
if number(previous) == 0 then redis.call('HDEL', record, 'vacant', 'play') end   -- a fresh process: not yet played on
redis.call('PERSIST', record)
redis.call('ZADD', key('nodes'), rt + tonumber(ttl_ms), nid)
if number(previous) == 0 then clear_strikes(nid) else refresh_free(nid) end
redis.call('XADD', key('ev'), 'MAXLEN', '~', EVENTS_KEPT, '*', 'what', 'node_registered', 'node', nid,
  'epoch', inc, 'at', now)
dispatch(DISPATCH_BUDGET)
return {'registered', text(inc), kept}
