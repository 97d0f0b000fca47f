-- Timers that follow from who is in the room, as its node sees it. Needs: deadlines.
local WATCHED = {joining_room = true, starting_pipeline = true, running = true}

local function read_room(sid)
  return redis.call('HMGET', key('s', sid), 'state', 'connected', 'controller', 'participants', 'd_controller',
    'd_room_empty')
end

-- Start and stop them as the presence that was noted last says. s: the room, as it was read.
local function watch_room(sid, s, media_ok)
  if not WATCHED[s[1] or ''] or not s[2] then return end
  local connected, at, changes = s[2] == '1', read_deadlines(sid), {}
  local function stop(kind)
    if at[kind] then changes[kind] = false end
  end
  if connected then stop('joining') end
  if media_ok and s[3] == '1' then
    stop('controller')
  elseif media_ok and connected and not at.controller then
    changes.controller = due(s[5])
  end
  if media_ok and number(s[4]) > 0 then
    stop('room_empty')
  elseif media_ok and connected and not at.room_empty and not due(s[5]) then
    changes.room_empty = due(s[6])              -- only where no controller grace runs
  end
  if next(changes) ~= nil then set_deadlines(sid, changes, at) end
end

-- What a beat says of one resident: 1 or 0 for the worker and the controller, and how many humans; or nothing.
local function note_presence(resident, media_ok)
  if not resident[3] then return end
  local sid, connected, controller, humans = resident[1], text(resident[3]), text(resident[4]), text(resident[5])
  local s = read_room(sid)
  if not WATCHED[s[1] or ''] then return end
  if s[2] == connected and s[3] == controller and s[4] == humans then return end
  redis.call('HSET', key('s', sid), 'connected', connected, 'controller', controller, 'participants', humans)
  s[2], s[3], s[4] = connected, controller, humans
  watch_room(sid, s, media_ok)
end
