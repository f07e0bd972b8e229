-- Takes holds away again: money in flight is no longer reserved, and which requests cost more than was held is forgotten.
drop function budget_levels(text, text, timestamptz);
drop function scope_path(text, text);
drop view budget_allocations;
drop function scope_blocked(text, text);
drop index teams_budgeted_idx, projects_budgeted_idx, users_budgeted_idx, api_keys_budgeted_idx, api_keys_budgeted_of_user_idx;
drop table hold_reservations, holds;
drop domain hold_state;
