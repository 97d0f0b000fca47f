-- What a node lists, by its own word: {sid, epoch, ...} each. Needs: members.

-- One assignment as a table key; epochs are text, so no digit is lost. A node may hold the same
-- session twice: what is left of an earlier assignment, and the new one.
local function assignment(sid, epoch)
  return sid .. ' ' .. epoch
end

-- The set of assignments in a list {{sid, epoch, ...}, ...}.
local function assignments(list)
  local set = {}
  for _, item in ipairs(list) do set[assignment(item[1], item[2])] = true end
  return set
end

-- What a node lists under the epoch before a rebase of which it hasn't heard yet is the same assignment. Returns
-- the list under the epochs of now, and whether there was any such.
local function follow_rebases(nid, list, members)
  local here, is_rebased = {}, false
  for _, member in ipairs(members or members_of(nid)) do here[assignment(member.sid, member.epoch)] = true end
  for _, item in ipairs(list) do
    if not here[assignment(item[1], item[2])] then
      local s = redis.call('HMGET', key('s', item[1]), 'node', 'epoch', 'rebased')
      if s[1] == nid and s[3] == item[2] and here[assignment(item[1], s[2])] then
        item[2], is_rebased = s[2], true
      end
    end
  end
  return list, is_rebased
end

local function highest_epoch(list)
  local highest = '0'
  for _, item in ipairs(list) do
    if tonumber(item[2]) > tonumber(highest) then highest = item[2] end
  end
  return highest
end
