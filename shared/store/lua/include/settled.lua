-- Most beats say what the one before said, of sessions that haven't changed since. They are answered without a
-- look at each session: all that the node lists is its own, and nothing is to be done. A change of any of its
-- sessions takes the mark away (core: changed). So that nothing rests on that alone, and since a release before
-- this one doesn't know the mark, it holds for a few beats only. Needs:
-- generation, and a beat's arguments.
local SETTLED_FOR_MS = 8000

-- Whether the record says already what this beat says of the node itself. n: the record.
local function is_written(n)
  return n.state == state and n.capacity == capacity and n.draining == draining and n.media_ok == media_ok
    and n.gen == pool.gen
end

-- Whether nothing but time can have changed where the node stands in `free`. n: its record as the beat found it.
local function is_steady(n)
  return rt >= number(n.rest) and n.gen == pool.gen and not in_grace() and not pool.hold
end

-- settles: the digest of what this beat says, and how many slots are taken while it does. lease: until when
-- it held.
local function is_settled(n, lease, settles)
  return n.settled == settles and rt < number(n.settled_until) and rt < number(lease) and is_steady(n)
end

-- The mark is always about the last beat: one that isn't quiet takes away what was settled before it.
local function settle(nid, n, is_quiet, settles)
  if is_quiet and is_steady(n) then
    redis.call('HSET', key('n', nid), 'settled', settles, 'settled_until', rt + SETTLED_FOR_MS, 'seen', seen)
  elseif n.settled then
    redis.call('HDEL', key('n', nid), 'settled')
  end
end
