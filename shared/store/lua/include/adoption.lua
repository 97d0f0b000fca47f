-- A node plays what the registry has lost, or knows only from an earlier time (R6). Needs: owner.
local STEP = {assigned = 1, joining_room = 2, starting_pipeline = 3, running = 4}

-- It may keep it if its epoch is higher than the record's and the record isn't terminal: of two claimants
-- the higher wins. What was taken back from it is told by its quarantine even when the record has expired.
local function may_adopt(nid, sid, epoch)
  if quarantined(nid, sid, epoch) then return false end
  local s = redis.call('HMGET', key('s', sid), 'state', 'epoch')
  if not s[1] then return true end
  return tonumber(epoch) > number(s[2]) and (s[1] == 'draining' or MAY_BECOME.draining[s[1]] == true)
end

-- Whether the record stands before the step that the node was already told to have been taken.
local function is_behind(known, step)
  return step ~= nil and STEP[known] ~= nil and STEP[step] ~= nil and STEP[known] < STEP[step]
end
