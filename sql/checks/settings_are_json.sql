-- grain: one row whose settings are not a JSON object
-- reads: evaluation.measurements, main.published_metrics, main.configured_methods
-- units: none
-- severity: error
-- excludes: nothing; queries read settings with ->>
with

rows as (

    select
        method,
        task,
        settings
    from evaluation.measurements
    union all
    select
        method,
        task,
        settings
    from main.published_metrics
    union all by name
    select
        method,
        settings
    from main.configured_methods

)

select *
from rows
where not coalesce(case when json_valid(settings) then json_type(settings) = 'OBJECT' else false end, false)
