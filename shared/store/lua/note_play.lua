#!lua flags=allow-oom
-- How a node plays, in its own figures, for people; nothing is decided by it.
-- Guarantee: only the present life of a live node is written; an empty text takes away what was told.
-- KEYS: prefix
-- ARGV: now_ms, node_id, incarnation, play
-- Touches: n:<nid>
-- Replies: noted, gone
-- Fields: none
-- Publishes: nothing
-- Include: core
local record = key('n', node_id)
if redis.call('HGET', record, 'inc') ~= incarnation or not redis.call('ZSCORE', key('nodes'), node_id) then
  return {'gone'}
end
if play == '' then
  redis.call('HDEL', record, 'play')
else
  redis.call('HSET', record, 'play', play)
end
return {'noted'}
