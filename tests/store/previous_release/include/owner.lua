-- Ownership is (node, incarnation, epoch), checked by equality before anything is changed.
local function owns(nid, inc, sid, epoch)
  local s = redis.call('HMGET', key('s', sid), 'node', 'epoch')
  return s[1] == nid and s[2] == epoch and redis.call('HGET', key('n', nid), 'inc') == inc
end

local function quarantined(nid, sid, epoch)
  return redis.call('ZSCORE', key('ns', nid), '!' .. sid) == epoch
end
