-- What a node holds by the registry's word and no longer lists. Needs: generation, slots, ending, listed.

-- Its slot, if it was to be cleaned up, is free; otherwise it is lost and returns to the line. Only what was
-- accepted, or taken back, under a lower stamp can be missing. seen_at: when the node's beat before came. Returns
-- whether any left.
local function let_missing_go(nid, members, listed, stamp, seen_at)
  local has_left = false
  for _, member in ipairs(members) do
    local here = listed[assignment(member.sid, member.epoch)]
    if member.quarantined then
      if not here and number(redis.call('HGET', key('n', nid), '!' .. member.sid)) < stamp then
        release_quarantine(nid, member.sid)
        has_left = true
      end
    elseif not here and not in_grace() then     -- in a grace it may be elsewhere, under a higher epoch
      local acked = redis.call('HGET', key('s', member.sid), 'acked')
      if acked and number(acked) < stamp then
        return_to_line(member.sid, 'node_lost_it', 1, seen_at, false)
        has_left = true
      end
    end
  end
  return has_left
end
