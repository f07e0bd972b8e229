-- Takes the dead letters away again, and with them the only copy of what was not settled: only for databases whose loss is
-- meant.
drop table dead_letters;
drop type settled_event;
