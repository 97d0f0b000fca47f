#!lua flags=allow-oom
-- Note when the first frame of an assignment was played: the user's play clock starts there.
-- What ends with it is counted here and nowhere else: how long a start took, a recovery, an empty slot.
-- Told late, because nobody answered, it was so long ago; no duration is counted then, since registry
-- time may have stood still meanwhile.
-- Guarantee: once per epoch, by the exact owner; a repeat changes nothing.
-- KEYS: prefix
-- ARGV: now_ms, node_id, incarnation, session_id, epoch, ago_ms
-- Touches: s:<sid>, n:<nid>, free, ctr, ev
-- Replies: noted, already, fenced
-- Fields: none
-- Publishes: r:<replica>
-- Include: core, generation, durations, owner
local LATE_MS = 2000
local DIED = {node_died = true, node_lost_it = true, service_lost = true, gpu_lost = true}

local sid, record = session_id, key('s', session_id)
if not owns(node_id, incarnation, sid, epoch) then return {'fenced'} end
local s = redis.call('HMGET', record, 'state', 'first_frame_epoch', 'first_frame', 'assigned_rt', 'lost', 'handed')
if s[2] == epoch then return {'already'} end
if s[1] ~= 'running' then return {'fenced'} end

keep_registry_time()
redis.call('HSET', record, 'first_frame', text(now - tonumber(ago_ms)), 'first_frame_epoch', epoch)
local is_late = tonumber(ago_ms) > LATE_MS
local function count_since(since, name)
  if not is_late then count_duration(name, math.max(rt - tonumber(since), 0)) end
end

local lost_at, why = string.match(text(s[5]), '^(%d+) (%S+)$')
if lost_at then
  count_since(lost_at, 'recovery')
  if DIED[why] then count_since(lost_at, 'kill') end
elseif not s[3] and s[4] then
  count_since(s[4], 'start')
end
if s[6] then count_since(s[6], 'idle') end
if s[5] or s[6] then redis.call('HDEL', record, 'lost', 'handed') end
changed(sid, 'first_frame', node_id, epoch, '')
return {'noted'}
