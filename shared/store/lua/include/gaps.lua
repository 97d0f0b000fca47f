-- For how long did somebody see nothing, who should have? Needs: slots. What is noted here ends with a first frame,
-- which counts it.

-- A slot stands empty between two users: from when the one saw the last of it, on `vacant` of its node (the latest
-- last, as many as are empty), to the first frame of the next. It counts where the next one stood in line by then,
-- since else nobody missed the slot. A node that is to be empty has none.
local VACANCIES_KEPT = 64

local function vacancies(nid)
  local n, kept = redis.call('HMGET', key('n', nid), 'vacant', 'admin', 'draining', 'inc', 'admin_capacity'), {}
  for since in string.gmatch(text(n[1]), '%d+') do kept[#kept + 1] = since end
  local is_withheld = n[5] and redis.call('ZCARD', key('ns', nid)) >= tonumber(n[5])
  return kept, n[4] and n[2] ~= 'draining' and n[3] ~= '1' and not is_withheld
end

-- sid has left the slot, and saw the last of it at `since`: or when it began to end, or never.
local function note_vacancy(nid, sid, since)
  if nid == '' or is_gone[nid] then return end
  local s = redis.call('HMGET', key('s', sid), 'handed', 't_draining', 'd_draining')
  since = number(s[1] or s[2] and number(s[2]) - number(s[3]) or since)
  local kept, is_wanted = vacancies(nid)
  if not is_wanted then return end
  kept[#kept + 1] = text(math.min(since, rt))
  redis.call('HSET', key('n', nid), 'vacant', table.concat(kept, ' ', math.max(#kept - VACANCIES_KEPT, 0) + 1))
end

-- sid steps onto the slot that was left last; it came to the line at queued_rt.
local function take_vacancy(nid, sid, queued_rt)
  local kept = vacancies(nid)
  local since = table.remove(kept)
  if not since then return end
  if #kept > 0 then
    redis.call('HSET', key('n', nid), 'vacant', table.concat(kept, ' '))
  else
    redis.call('HDEL', key('n', nid), 'vacant')
  end
  if tonumber(since) >= tonumber(queued_rt or rt) then redis.call('HSET', key('s', sid), 'handed', since) end
end

-- A stage is lost from the moment at which its user saw the last of it; lost once more on the way back, it is the
-- same loss.
local function note_loss(sid, since, why)
  local s = redis.call('HMGET', key('s', sid), 'state', 'first_frame', 'lost')
  if s[1] ~= 'running' or not s[2] or s[3] then return end
  redis.call('HSET', key('s', sid), 'lost', text(math.min(since, rt)) .. ' ' .. why)
end
