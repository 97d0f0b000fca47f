-- What befell a session or a node in the last ten minutes (R4): text of entries 'seconds:what', oldest first.
local WINDOW_S, ENTRIES_KEPT = 600, 5

local function recent(entries)
  local kept, since = {}, math.floor(rt / 1000) - WINDOW_S
  for at, what in string.gmatch(text(entries), '(%d+):(%S+)') do
    if tonumber(at) > since then kept[#kept + 1] = {at, what} end
  end
  return kept
end

local function with_one_more(kept, what)
  kept[#kept + 1] = {text(math.floor(rt / 1000)), what}
  local entries = {}
  for i = math.max(#kept - ENTRIES_KEPT, 0) + 1, #kept do
    entries[#entries + 1] = kept[i][1] .. ':' .. kept[i][2]
  end
  return table.concat(entries, ' ')
end
