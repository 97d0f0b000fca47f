-- Timers that follow from who is in the room, as its node sees it. Needs: deadlines, members.
local WATCHED = {joining_room = true, starting_pipeline = true, running = true}

-- Start and stop them as the presence that was noted last says.
local function watch_room(sid, media_ok)
  local s = redis.call('HMGET', key('s', sid), 'state', 'connected', 'controller', 'participants',
    'd_controller', 'd_room_empty')
  if not WATCHED[s[1] or ''] or not s[2] then return end
  local connected, at, changes = s[2] == '1', read_deadlines(sid), {}
  if connected then changes.joining = false end
  if media_ok and s[3] == '1' then
    changes.controller = false
  elseif media_ok and connected and not at.controller then
    changes.controller = due(s[5])
  end
  if media_ok and number(s[4]) > 0 then
    changes.room_empty = false
  elseif media_ok and connected and not at.room_empty and not due(s[5]) then
    changes.room_empty = due(s[6])              -- only where no controller grace runs
  end
  set_deadlines(sid, changes)
end

-- Presence came with a beat: 1 or 0 for the worker and the controller, and how many humans.
local function note_presence(sid, connected, controller, participants, media_ok)
  local record = key('s', sid)
  local s = redis.call('HMGET', record, 'state', 'connected', 'controller', 'participants')
  if not WATCHED[s[1] or ''] then return end
  if s[2] == text(connected) and s[3] == text(controller) and s[4] == text(participants) then return end
  redis.call('HSET', record, 'connected', connected, 'controller', controller,
    'participants', participants)
  watch_room(sid, media_ok)
end

-- LiveKit is out: nobody can be seen, so nobody is missing. Later the timers start anew.
local function follow_media(nid, was_ok, is_ok)
  if is_ok and was_ok then return end
  for _, member in ipairs(members_of(nid)) do
    if not member.quarantined and is_ok then
      watch_room(member.sid, true)
    elseif not member.quarantined then
      set_deadlines(member.sid, {controller = false, room_empty = false})
    end
  end
end
