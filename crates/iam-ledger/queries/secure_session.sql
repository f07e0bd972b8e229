-- Makes a commit mean that the data is on disk, whatever the database or the role has as its default. remote_apply is
-- stronger than on and stays.
select set_config('synchronous_commit', 'on', false) as "setting!"
where current_setting('synchronous_commit') not in ('on', 'remote_apply')
