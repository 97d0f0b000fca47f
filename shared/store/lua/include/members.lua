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

-- {[sid] = epoch} of a JSON list [[sid, epoch, ...], ...]; epochs as text, so no digit is lost.
local function by_session(list)
  local epochs = {}
  for _, item in ipairs(list) do epochs[item[1]] = item[2] end
  return epochs
end

local function mates(members)
  local count = {all = 0, starting = 0}
  for _, member in ipairs(members) do
    if not member.quarantined then
      count.all = count.all + 1
      if redis.call('HGET', key('s', member.sid), 'state') == 'starting_pipeline' then
        count.starting = count.starting + 1
      end
    end
  end
  return count
end

-- Return up to `budget` of a gone node's sessions to the line; the rest waits for the next call.
-- Appends {sid, epoch or reason, why} to returned and ended; true when none is left.
local function evacuate(nid, why, counted, lost_at, budget, returned, ended)
  local members = members_of(nid)
  local count = mates(members)
  for i, member in ipairs(members) do
    if i > budget then return false end
    if member.quarantined then
      redis.call('ZREM', key('ns', nid), '!' .. member.sid)
      redis.call('HDEL', key('n', nid), '!' .. member.sid)
    else
      local weight = counted and death_weight(member.sid, count) or 0
      local outcome, detail = return_to_line(member.sid, why, weight, lost_at, false)
      local list = outcome == 'returned' and returned or ended
      list[#list + 1] = {member.sid, text(detail), why}
    end
  end
  return true
end
