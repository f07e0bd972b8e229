-- Takes the views for people away again; no data is lost.
drop view usage_by_day, usage_by_model, usage_by_scope, spend_by_period, open_holds, hold_overruns;
