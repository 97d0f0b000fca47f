#!lua flags=allow-oom
-- A node says goodbye: no lease is left to wait for, whatever it still held returns to the line.
-- KEYS: prefix
-- ARGV: now_ms, node_id, incarnation
-- Touches: q, s:<sid>, sd:<sid>, sp:<sid>, a:<sid>, idem:<hash>, n:<nid>, ns:<nid>, nodes, free, dl, ctr, ev, holds, ended, id:<hash>
-- Replies: retired, gone
-- Fields: none
-- Publishes: w:<nid> assign; r:<replica>
-- Include: core, generation, recent, deadlines, slots, gaps, holds, blame, ending, durations, choice, dispatch, members
local DISPATCH_BUDGET, ALL, RECORD_KEPT_MS = 64, 1024, 86400000

if redis.call('HGET', key('n', node_id), 'inc') ~= incarnation
  or not redis.call('ZSCORE', key('nodes'), node_id) then return {'gone'} end

keep_registry_time()
redis.call('ZREM', key('nodes'), node_id)
refresh_free(node_id)
evacuate(node_id, 'node_shutdown', false, rt, ALL, {}, {})
redis.call('HSET', key('n', node_id), 'state', 'dead')
redis.call('PEXPIRE', key('n', node_id), RECORD_KEPT_MS)
node_changed(node_id, 'node_retired')
dispatch(DISPATCH_BUDGET)
return {'retired'}
