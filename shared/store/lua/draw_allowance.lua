#!lua flags=allow-oom
-- Draw a portion of what somebody may still use: a bucket that fills by itself.
-- Guarantee: over all replicas together no more is drawn than the full bucket and what has flowed in
-- since. A draw whose answer was lost is lost, too; it is never given twice.
-- KEYS: prefix
-- ARGV: now_ms, holder_hash, per_1000_s, most, wanted
-- Touches: rate:<hash>
-- Replies: drawn, dry
-- Fields: drawn: how many, from 1 to wanted; dry: ms until there is one again
-- Publishes: nothing
-- Include: core
local bucket = key('rate', holder_hash)
local rate, full = tonumber(per_1000_s), tonumber(most)           -- rate: millionths a millisecond
local kept = redis.call('GET', bucket)
local level, at = string.match(kept or '', '^(%d+) (%d+)$')
local is_put_back = number(at) > now                              -- then what flows in counts from here on
local passed_ms = math.max(now - number(at), 0)
level = math.min(full * 1000000, (level and number(level) or full * 1000000) + passed_ms * rate)
local drawn = math.min(tonumber(wanted), math.floor(level / 1000000))
level = level - drawn * 1000000
local until_full_ms = math.ceil((full * 1000000 - level) / rate)
if drawn > 0 or is_put_back then
  redis.call('SET', bucket, text(level) .. ' ' .. text(now), 'PX', text(until_full_ms))
end
if drawn < 1 then return {'dry', text(math.ceil((1000000 - level) / rate))} end
return {'drawn', text(drawn)}
