-- grain: one row whose settings can't be read as a JSON object
-- reads: main.metrics, main.published_metrics
-- units: none
-- severity: error
-- excludes: nothing; readers take settings apart with ->>
with

rows as (

    select
        method,
        task,
        settings
    from main.metrics
    union all
    select
        method,
        task,
        settings
    from main.published_metrics

)

select *
from rows
where not coalesce(if(json_valid(settings), json_type(settings) = 'OBJECT', false), false)
