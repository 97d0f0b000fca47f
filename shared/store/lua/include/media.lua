-- What a node's word on LiveKit means for the timers of its rooms. Needs: members, presence.

-- LiveKit is out: nobody can be seen, so nobody is missing. Later the timers start anew.
local function follow_media(nid, was_ok, is_ok)
  if is_ok and was_ok then return end
  for _, member in ipairs(members_of(nid)) do
    if not member.quarantined and is_ok then
      watch_room(member.sid, read_room(member.sid), true)
    elseif not member.quarantined then
      set_deadlines(member.sid, {controller = false, room_empty = false})
    end
  end
end
