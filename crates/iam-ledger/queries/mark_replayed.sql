-- Marks a dead letter with what its replay did.
-- $1 id; $2 time of the replay; $3 outcome.
update dead_letters
set replayed_at = $2, replay_outcome = $3
where id = $1
