-- Takes identities away again, with their limits and budgets: only for databases whose loss is meant.
drop view scopes;
drop table api_keys, users, projects, teams, organizations;
drop domain time_zone, budget_period, usd, rate_limit, identifier;
