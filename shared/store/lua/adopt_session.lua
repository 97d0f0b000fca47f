#!lua flags=allow-oom
-- Take back a session that a node holds and the registry has lost, or knows only from an earlier time (R6).
-- Guarantee: of two claimants the higher epoch wins; a terminal record stays; a repeat changes nothing.
-- KEYS: prefix
-- ARGV: now_ms, node_id, incarnation, session_id, epoch, stamp, state, bundle, age_ms
-- Touches: q, s:<sid>, sd:<sid>, sp:<sid>, a:<sid>, idem:<hash>, id:<hash>, n:<nid>, ns:<nid>, nodes, free, dl, ctr, ev
-- Replies: adopted, fenced
-- Fields: none
-- Publishes: r:<replica>
-- Include: core, generation, recent, deadlines, slots, owner, adoption, bundle
local sid, record = session_id, key('s', session_id)
local known = redis.call('HMGET', record, 'state', 'node')
local mine = owns(node_id, incarnation, sid, epoch)
if mine and not is_behind(known[1], state) then return {'adopted'} end
local n = redis.call('HMGET', key('n', node_id), 'inc', 'state')
if n[1] ~= incarnation or n[2] == 'dead' or not redis.call('ZSCORE', key('nodes'), node_id)
  or not (mine or may_adopt(node_id, sid, epoch)) then return {'fenced'} end
local kept = cjson.decode(bundle)

keep_registry_time()
fold_number('epoch', epoch)
fold_number('ticket', kept.record.ticket)
if not mine and text(known[2]) ~= '' then       -- the older claimant hears of it in its next beat
  redis.call('ZREM', key('ns', known[2]), sid)
  refresh_free(known[2])
end
redis.call('ZREM', key('q'), sid)
restore(sid, kept)

local is_ending = known[1] == 'draining'
redis.call('HSET', record, 'state', is_ending and 'draining' or state, 'node', node_id, 'epoch', epoch,
  'acked', stamp)
redis.call('HDEL', record, 'connected', 'controller', 'participants')   -- its next beat says it anew
if kept.record.first_frame_epoch == epoch then redis.call('HDEL', record, 'lost', 'handed') end   -- over, and counted
local s = redis.call('HMGET', record, 'd_joining', 'd_starting', 'left')
local deadlines = {queued = false, assigned = false, joining = false, starting = false, session = false,
  controller = false, room_empty = false}
if not is_ending then
  local start_ms = number(redis.call('HGET', key('n', node_id), 'start_ms'))
  if state == 'joining_room' then deadlines.joining = due(s[1]) end
  if state == 'starting_pipeline' then deadlines.starting = due(start_ms > 0 and start_ms or s[2]) end
  local left = kept.left and math.max(tonumber(kept.left) - tonumber(age_ms), 0)
  if state == 'running' then left = left or tonumber(s[3] or nil) end
  if left then
    deadlines.session = rt + left
    redis.call('HDEL', record, 'left')
  end
end
set_deadlines(sid, deadlines)
redis.call('HSET', CTR, 'top', math.max(number(redis.call('HGET', CTR, 'top')), tonumber(kept.record.ticket)))
redis.call('ZADD', key('ns', node_id), epoch, sid)
local strangers = number(redis.call('HGET', key('n', node_id), 'strangers'))
if not mine and strangers > 0 then redis.call('HSET', key('n', node_id), 'strangers', strangers - 1) end
refresh_free(node_id)
changed(sid, 'adopted', node_id, epoch, is_ending and 'draining' or state)
total('adopted')
return {'adopted'}
