#!lua flags=no-writes
-- Read one session.
-- KEYS: prefix
-- ARGV: now_ms, session_id
-- Touches: s:<sid>, sd:<sid>, q, ctr
-- Replies: ok, gone
-- Fields: the session (include/record.lua)
-- Publishes: nothing
-- Include: core, record
local fields = session_fields(session_id)
if not fields then return {'gone'} end
return {'ok', fields}
