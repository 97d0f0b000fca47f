-- How many live sessions one identity has: those in line, and those on stage. One that is ending no
-- longer counts, since the next may begin.
local function count_of_identity(hash)
  local waiting, active = 0, 0
  for _, sid in ipairs(redis.call('ZRANGE', key('id', hash), 0, -1)) do
    local state = redis.call('HGET', key('s', sid), 'state')
    if state == 'queued' then
      waiting = waiting + 1
    elseif MAY_BECOME.draining[state or ''] then
      active = active + 1
    elseif state ~= 'draining' then
      redis.call('ZREM', key('id', hash), sid)    -- its record was lost
    end
  end
  return waiting, active
end

-- Whether one more would be one too many. Whoever waits will be on stage, so it counts as active, too:
-- nobody has to be passed over in line later on. 0: no limit.
local function is_over_limit(hash, is_served_at_once, waiting_limit, active_limit)
  if hash == '' then return false end
  local waiting, active = count_of_identity(hash)
  if tonumber(active_limit) > 0 and waiting + active >= tonumber(active_limit) then return true end
  return not is_served_at_once and tonumber(waiting_limit) > 0 and waiting >= tonumber(waiting_limit)
end
