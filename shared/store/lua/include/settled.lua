-- Most beats say what the one before said, of sessions that haven't changed since. They are answered without a
-- look at each session: all that the node lists is its own, and nothing is to be done. A change of any of its
-- sessions takes the mark away (core: changed). So that nothing rests on that alone, and since a release before
-- this one doesn't know the mark, it holds for a few beats only. Needs:
-- generation, and a beat's arguments.
local SETTLED_FOR_MS = 8000

-- All that this beat says, and how many slots are taken while it does.
local function what_is_said(taken)
  return redis.sha1hex(table.concat({incarnation, state, capacity, draining, media_ok, residents, ended, taken}, ' '))
end

-- Whether nothing but time can have changed where the node stands in `free`. n: its record as the beat found it.
local function is_steady(n)
  return rt >= number(n.rest) and n.gen == pool.gen and not in_grace() and not pool.hold
end

-- lease: until when it held.
local function is_settled(n, lease, said)
  return n.settled == said and rt < number(n.settled_until) and rt < number(lease) and is_steady(n)
end

-- The mark is always about the last beat: one that isn't quiet takes away what was settled before it.
local function settle(nid, n, is_quiet, said)
  if is_quiet and is_steady(n) then
    redis.call('HSET', key('n', nid), 'settled', said, 'settled_until', rt + SETTLED_FOR_MS)
  elseif n.settled then
    redis.call('HDEL', key('n', nid), 'settled')
  end
end

-- All that a node listed, as what it owns.
local function as_owned(list)
  local owned = {}
  for i, item in ipairs(list) do owned[i] = {item[1], item[2]} end
  return owned
end
