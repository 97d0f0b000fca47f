-- A node plays what the registry has lost, or knows only from an earlier time (R6). Needs: owner.
local STEP = {assigned = 1, joining_room = 2, starting_pipeline = 3, running = 4}

-- How a claim stands to the record, and who holds the session by it: of two claimants the higher wins.
local function compare_claim(sid, epoch)
  local s = redis.call('HMGET', key('s', sid), 'state', 'epoch', 'node')
  if not s[1] then return 'unknown' end
  if s[1] ~= 'draining' and not MAY_BECOME.draining[s[1]] then return 'ended' end
  if s[2] == epoch then return 'same', s[3] end
  return tonumber(epoch) > number(s[2]) and 'newer' or 'older'
end

-- It may keep the session if its claim is newer, or nobody knows better. What was taken back from it is told
-- by its quarantine, even when the record has expired.
local function may_adopt(nid, sid, epoch)
  local claim = compare_claim(sid, epoch)
  return (claim == 'newer' or claim == 'unknown') and not quarantined(nid, sid, epoch)
end

-- Its word that the session has ended counts if it holds it, or should (R6).
local function may_end(nid, sid, epoch)
  local claim, holder = compare_claim(sid, epoch)
  return (claim == 'same' and holder == nid) or (claim == 'newer' and not quarantined(nid, sid, epoch))
end

-- Whether the record stands before the step that the node was already told to have been taken.
local function is_behind(known, step)
  return step ~= nil and STEP[known] ~= nil and STEP[step] ~= nil and STEP[known] < STEP[step]
end
