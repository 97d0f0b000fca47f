#!lua flags=allow-oom,no-writes
-- Pack all that a node must keep of a session to bring it back after the registry lost it (R14).
-- Guarantee: adopt_session takes the bundle as it is; nobody else reads it.
-- KEYS: prefix
-- ARGV: now_ms, session_id
-- Touches: s:<sid>, sd:<sid>, sp:<sid>, idem:<hash>, ctr
-- Replies: ok, gone
-- Fields: ok: the bundle (JSON)
-- Publishes: nothing
-- Include: core, bundle
if redis.call('EXISTS', key('s', session_id)) == 0 then return {'gone'} end
return {'ok', cjson.encode(pack(session_id))}
