-- How durations are counted: once in the whole fleet, in the script by which one comes to its end. Needs: core.

-- One more duration of this kind: into its bucket, and to the sum of all.
local function count_duration(name, ms)
  local bucket = 'inf'
  for _, bound in ipairs(DURATION_BOUNDS_MS) do
    if ms <= bound[2] then
      bucket = bound[1]
      break
    end
  end
  total(name .. '_le_' .. bucket)
  redis.call('HINCRBY', CTR, 'n_' .. name .. '_ms', ms)
end
