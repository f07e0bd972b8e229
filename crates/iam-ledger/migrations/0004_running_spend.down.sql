-- Takes away what keeps running spend where it is when a budget's period or time zone changes.
do $$
declare
    subject text;
begin
    foreach subject in array array['organizations', 'teams', 'projects', 'users', 'api_keys'] loop
        execute format('drop trigger budget_calendar_updated on %I', subject);
        execute format('drop trigger budget_calendar_inserted on %I', subject);
        execute format('drop trigger budget_calendar_deleted on %I', subject);
    end loop;
end
$$;
drop function budget_calendar_changed();
drop function move_spend(text, text, text, text, text, text);
drop function settled_spend(text, text, timestamptz, timestamptz);
drop function period_end(text, timestamptz, text);
