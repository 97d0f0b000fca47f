-- The sessions of one node, and how they leave it together. Needs: deadlines, slots, ending.
local function members_of(nid)
  local flat, members = redis.call('ZRANGE', key('ns', nid), 0, -1, 'WITHSCORES'), {}
  for i = 1, #flat, 2 do
    local sid = flat[i]
    local kept = string.sub(sid, 1, 1) == '!'
    members[#members + 1] = {sid = kept and string.sub(sid, 2) or sid, epoch = flat[i + 1],
      quarantined = kept}
  end
  return members
end

-- How many sessions a process had when it died: all that it had accepted, and those starting.
local function count_mates(nid)
  local count = {all = 0, starting = 0}
  for _, member in ipairs(members_of(nid)) do
    local s = redis.call('HMGET', key('s', member.sid), 'state', 'acked')
    if s[2] and not member.quarantined then
      count.all = count.all + 1
      if s[1] == 'starting_pipeline' then count.starting = count.starting + 1 end
    end
  end
  return count
end

-- The same, counted once per death: its sessions leave one by one, and the last isn't alone in it.
local function mates_at_death(nid)
  local record = key('n', nid)
  local n = redis.call('HMGET', record, 'mates', 'mates_starting')
  if n[1] then return {all = number(n[1]), starting = number(n[2])} end
  local count = count_mates(nid)
  redis.call('HSET', record, 'mates', count.all, 'mates_starting', count.starting)
  return count
end

local function forget_mates(nid)
  redis.call('HDEL', key('n', nid), 'mates', 'mates_starting')
end

-- Return up to `budget` of a gone node's sessions to the line; the rest waits for the next call. The node
-- is out of `free` already.
-- Appends {sid, epoch or reason, why} to returned and ended; true when none is left.
local function evacuate(nid, why, counted, lost_at, budget, returned, ended)
  local count = mates_at_death(nid)
  is_gone[nid] = true
  for i, member in ipairs(members_of(nid)) do
    if i > budget then return false end
    if member.quarantined then
      redis.call('ZREM', key('ns', nid), '!' .. member.sid)
      redis.call('HDEL', key('n', nid), '!' .. member.sid)
    else
      local weight = counted and death_weight(member.sid, count) or 0
      if weight > 0 then note_death(member.sid, nid) end
      local outcome, detail = return_to_line(member.sid, why, weight, lost_at, false)
      local list = outcome == 'returned' and returned or ended
      list[#list + 1] = {member.sid, text(detail), why}
    end
  end
  forget_mates(nid)
  return true
end
