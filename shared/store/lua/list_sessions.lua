#!lua flags=allow-oom,no-writes
-- Show some of the sessions that stand in one place: the line, a node's slots, or the ended ones.
-- Guarantee: changes nothing; looks at `count` of them, behind the one that was seen last.
-- KEYS: prefix
-- ARGV: now_ms, place, after, count
-- Touches: q, s:<sid>, sd:<sid>, ns:<nid>, ctr, ended
-- Replies: some, last
-- Fields: {score, the session (include/record.lua)} of each; last: nothing is behind them
-- Publishes: nothing
-- Include: core, record
local nid = string.match(place, '^n:(.+)$')
local found
if place == 'ended' then                        -- newest first
  found = redis.call('ZRANGE', key('ended'), '(' .. after, '-inf', 'BYSCORE', 'REV', 'LIMIT', 0, count,
    'WITHSCORES')
else
  local name = nid and key('ns', nid) or key('q')
  found = redis.call('ZRANGE', name, '(' .. after, '+inf', 'BYSCORE', 'LIMIT', 0, count, 'WITHSCORES')
end

local rows = {}
for i = 1, #found, 2 do
  rows[#rows + 1] = {found[i + 1], session_fields(found[i]) or {}}   -- none: expired, or quarantined
end
return {#rows < tonumber(count) and 'last' or 'some', rows}
