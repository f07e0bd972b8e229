-- A new key that names another team than the owner whose team it is billed to. No foreign key can say this, since an owner
-- may have no team.
-- $1 ids of the keys.
select api_keys.id::text as "id!", api_keys.team_id::text as "team_id!",
       case when api_keys.user_id is not null then 'user' else 'project' end as "owner_kind!",
       coalesce(api_keys.user_id, api_keys.project_id)::text as "owner_id!"
from api_keys
left join users on users.id = api_keys.user_id
left join projects on projects.id = api_keys.project_id and api_keys.user_id is null
where api_keys.id = any($1::text[])
  and api_keys.team_id is not null
  and coalesce(api_keys.user_id, api_keys.project_id) is not null
  and coalesce(users.team_id, projects.team_id) is distinct from api_keys.team_id
order by api_keys.id
limit 1
