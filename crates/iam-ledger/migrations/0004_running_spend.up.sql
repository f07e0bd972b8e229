-- What is settled in a scope's running period, said once for quotas, holds and allocations; and what keeps it true when the period
-- or its time zone changes.

-- Once a period is known to begin, the next one does at its local midnight plus a day, a week or a month. That midnight may not
-- exist or exist twice when clocks change, so it is put through the same rule as any other instant.
create function period_end(period text, instant timestamptz, zone text) returns timestamptz
    language sql stable parallel safe
return case
    when period <> 'none' then period_start(
        period,
        (date_trunc('day', period_start(period, instant, zone) at time zone zone)
            + case period when 'daily' then interval '1 day' when 'weekly' then interval '7 days' else interval '1 month' end
            -- Noon: inside the first day of the next period whatever its midnight does.
            + interval '12 hours') at time zone zone,
        zone)
end;
comment on function period_end(text, timestamptz, text) is
    'The first instant after the budget period that an instant belongs to, by the rule of period_start; null for the period none.';

-- A table of one row, so that the planner inlines it. Of the period that is running there is one sum; where there is no period any
-- more, those of all that were.
create function settled_spend(scope_kind text, scope_id text, first timestamptz, beyond timestamptz) returns table (usd numeric)
    language sql stable parallel safe rows 1
as $$
    select coalesce(sum(s.spend_usd), 0)
    from scope_spend s
    where s.kind = scope_kind and s.id = scope_id
      and s.period_start >= first and s.period_start < coalesce(beyond, 'infinity')
$$;
comment on function settled_spend(text, text, timestamptz, timestamptz) is
    'What a scope was charged in the period that begins at one instant and ends before another (null: never). The only definition.';

-- Spend stays in the instant in which it was made: a period that begins anew in the middle of another finds in it exactly what was
-- spent since its own first instant. What is older than scope_spend_quarters stays where it was; no period that is running
-- reaches back so far.
create function move_spend(
    scope_kind text, scope_id text, old_period text, old_zone text, new_period text, new_zone text
) returns void
    language plpgsql
    set search_path from current
as $$
declare
    delta record;
begin
    -- Every commit that charges shares this lock: no charge under the old period is missed, and none comes after.
    perform pg_advisory_xact_lock(hashtextextended('tallyweir charges', 0));
    for delta in
        with moved as (
            select period_start(old_period, q.quarter, old_zone) as was, period_start(new_period, q.quarter, new_zone) as becomes,
                   sum(q.spend_usd) as usd, sum(q.paid_events)::bigint as events
            from scope_spend_quarters q
            where q.kind = scope_kind and q.id = scope_id
            group by 1, 2
        )
        select change.start, sum(change.usd) as usd, sum(change.events)::bigint as events
        from (
            select was as start, -usd as usd, -events as events from moved where was <> becomes
            union all
            select becomes, usd, events from moved where was <> becomes
        ) as change
        group by 1
        order by 1
    loop
        update scope_spend s
        set spend_usd = s.spend_usd + delta.usd, paid_events = s.paid_events + delta.events
        where s.kind = scope_kind and s.id = scope_id and s.period_start = delta.start and s.spend_usd + delta.usd > 0;
        continue when found;
        delete from scope_spend s
        where s.kind = scope_kind and s.id = scope_id and s.period_start = delta.start and s.spend_usd + delta.usd = 0;
        continue when found;
        -- Less than nothing would be left only of sums that another hand changed: the constraints refuse it.
        insert into scope_spend (kind, id, period_start, spend_usd, paid_events)
        values (scope_kind, scope_id, delta.start, delta.usd, delta.events);
    end loop;
end
$$;
comment on function move_spend(text, text, text, text, text, text) is
    'Moves what a scope was charged from the periods of one calendar to those of another.';

-- A scope that no table knows is charged without a period. Whoever may change an identity need not be allowed to change sums.
create function budget_calendar_changed() returns trigger
    language plpgsql security definer
    set search_path from current
as $$
declare
    scope record;
begin
    if tg_op = 'UPDATE' then
        perform move_spend(tg_argv[0], new.id, old.budget_period, old.budget_time_zone, new.budget_period, new.budget_time_zone);
        return null;
    end if;
    if not exists (select from changed c where c.budget_period <> 'none') then
        return null;
    end if;
    -- Before looking: a first charge that is under way is not to be seen yet, and would stay where nobody has a period.
    perform pg_advisory_xact_lock(hashtextextended('tallyweir charges', 0));
    for scope in
        select c.id, c.budget_period, c.budget_time_zone
        from changed c
        where c.budget_period <> 'none'
          and exists (select from scope_spend_quarters q where q.kind = tg_argv[0] and q.id = c.id)
        order by c.id
    loop
        if tg_op = 'INSERT' then
            perform move_spend(tg_argv[0], scope.id, 'none', 'UTC', scope.budget_period, scope.budget_time_zone);
        else
            perform move_spend(tg_argv[0], scope.id, scope.budget_period, scope.budget_time_zone, 'none', 'UTC');
        end if;
    end loop;
    return null;
end
$$;
comment on function budget_calendar_changed() is
    'Moves the spend of scopes whose budget period or time zone is another from now on, or that begin or cease to have one.';

do $$
declare
    subject record;
begin
    for subject in
        select * from (values ('organizations', 'organization'), ('teams', 'team'), ('projects', 'project'), ('users', 'user'),
                              ('api_keys', 'key')) as t (name, kind)
    loop
        execute format('create trigger budget_calendar_updated after update of budget_period, budget_time_zone on %I '
            'for each row when ((old.budget_period, old.budget_time_zone) is distinct from (new.budget_period, new.budget_time_zone)) '
            'execute function budget_calendar_changed(%L)', subject.name, subject.kind);
        execute format('create trigger budget_calendar_inserted after insert on %I referencing new table as changed '
            'for each statement execute function budget_calendar_changed(%L)', subject.name, subject.kind);
        execute format('create trigger budget_calendar_deleted after delete on %I referencing old table as changed '
            'for each statement execute function budget_calendar_changed(%L)', subject.name, subject.kind);
    end loop;
end
$$;

-- Run with the owner's rights, they must not find a temporary table of their caller in the place of one of ours.
do $$
begin
    execute format('alter function move_spend(text, text, text, text, text, text) set search_path = %s, pg_temp',
        current_setting('search_path'));
    execute format('alter function budget_calendar_changed() set search_path = %s, pg_temp', current_setting('search_path'));
end
$$;
