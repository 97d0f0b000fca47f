-- Timers that follow from who is in the room, as its node sees it. Needs: deadlines, members.
local WATCHED = {joining_room = true, starting_pipeline = true, running = true}

-- Presence came with a beat: 1 or 0 for the worker and the controller, and how many humans.
local function note_presence(sid, connected, controller, participants, media_ok)
  local record = key('s', sid)
  local s = redis.call('HMGET', record, 'state', 'd_controller', 'd_room_empty')
  if not WATCHED[s[1] or ''] then return end
  redis.call('HSET', record, 'connected', connected, 'controller', controller,
    'participants', participants)
  if not media_ok then return end
  local at, changes = read_deadlines(sid), {}
  if connected == 1 then changes.joining = false end
  if controller == 1 then
    changes.controller = false
  elseif connected == 1 and not at.controller then
    changes.controller = due(s[2])
  end
  if participants > 0 then
    changes.room_empty = false
  elseif connected == 1 and not at.room_empty and not due(s[2]) then
    changes.room_empty = due(s[3])              -- only where no controller grace runs
  end
  set_deadlines(sid, changes)
end

-- LiveKit is out: nobody can be seen, so nobody is missing.
local function stop_presence_timers(nid)
  for _, member in ipairs(members_of(nid)) do
    if not member.quarantined then
      set_deadlines(member.sid, {controller = false, room_empty = false})
    end
  end
end
