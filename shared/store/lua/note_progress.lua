#!lua flags=allow-oom
-- How a node's service comes up, in the node's own words, for people; nothing is decided by it.
-- Guarantee: only the present life of a live node is written; an empty text takes away what was told.
-- KEYS: prefix
-- ARGV: now_ms, node_id, incarnation, progress
-- Touches: n:<nid>
-- Replies: noted, gone
-- Fields: none
-- Publishes: nothing
-- Include: core
local record = key('n', node_id)
if redis.call('HGET', record, 'inc') ~= incarnation or not redis.call('ZSCORE', key('nodes'), node_id) then
  return {'gone'}
end
if progress == '' then
  redis.call('HDEL', record, 'progress')
else
  redis.call('HSET', record, 'progress', progress)
end
return {'noted'}
