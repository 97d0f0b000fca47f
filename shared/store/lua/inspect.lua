#!lua flags=allow-oom,no-writes
-- Show all that stands under some sessions and nodes: for people who ask why, and for the audit.
-- Guarantee: one instant; changes nothing; its work is bounded by the names that are given.
-- KEYS: prefix
-- ARGV: now_ms, session_ids, node_ids
-- Touches: q, s:<sid>, sd:<sid>, sp:<sid>, a:<sid>, idem:<hash>, n:<nid>, ns:<nid>, nodes, free, dl, ctr
-- Replies: ok
-- Fields: now ms, registry time ms, ctr, sessions {sid, record, texts, rank, ticket in q, deadline in dl, epoch in its node's slots, epoch as quarantined, image bytes, ms to live of s, sd, sp, a, idem}, nodes {nid, record, lease, place in free, ms to live of n, members {member, epoch, state, node, session's epoch, acked}}; hashes as flat lists, '' for nothing
-- Publishes: nothing
-- Include: core

local function lives(kind, id)
  return text(id and redis.call('PTTL', key(kind, id)) or -2)
end

local function show_session(sid)
  local slots = key('ns', redis.call('HGET', key('s', sid), 'node') or '')
  local rank = redis.call('ZRANK', key('q'), sid)
  return {sid, redis.call('HGETALL', key('s', sid)), redis.call('HGETALL', key('sd', sid)),
    rank and text(rank) or '', text(redis.call('ZSCORE', key('q'), sid)),
    text(redis.call('ZSCORE', key('dl'), sid)), text(redis.call('ZSCORE', slots, sid)),
    text(redis.call('ZSCORE', slots, '!' .. sid)), text(redis.call('STRLEN', key('a', sid))),
    {lives('s', sid), lives('sd', sid), lives('sp', sid), lives('a', sid),
      lives('idem', redis.call('HGET', key('s', sid), 'idem'))}}
end

local function show_members(nid)
  local flat, members = redis.call('ZRANGE', key('ns', nid), 0, -1, 'WITHSCORES'), {}
  for i = 1, #flat, 2 do
    local sid = string.gsub(flat[i], '^!', '')
    local s = redis.call('HMGET', key('s', sid), 'state', 'node', 'epoch', 'acked')
    members[#members + 1] = {flat[i], flat[i + 1], text(s[1]), text(s[2]), text(s[3]), text(s[4])}
  end
  return members
end

local sessions, nodes = {}, {}
for sid in string.gmatch(session_ids, '%S+') do sessions[#sessions + 1] = show_session(sid) end
for nid in string.gmatch(node_ids, '%S+') do
  nodes[#nodes + 1] = {nid, redis.call('HGETALL', key('n', nid)),
    text(redis.call('ZSCORE', key('nodes'), nid)), text(redis.call('ZSCORE', key('free'), nid)),
    lives('n', nid), show_members(nid)}
end
return {'ok', text(now), text(rt), redis.call('HGETALL', CTR), sessions, nodes}
