-- A live drain: from a set time on the node gives back all that it holds. Needs: generation.

-- A beat's reply, with the ms until then while there is such a time; 0: now. Never in a grace, like all
-- that expires. n: the node's record.
local function with_move(n, reply)
  if n.drain_at then reply[#reply + 1] = text(math.max(tonumber(n.drain_at) - rt, in_grace() and 1 or 0)) end
  return reply
end
