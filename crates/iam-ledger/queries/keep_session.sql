-- Proves that the session, and with it every lock that it holds, is still there.
select true as "alive!"
