-- grain: one measured aggregate under the published vocabulary
-- reads: evaluation.measurements, main.configured_methods, parts.trained_sets
-- units: as main.metrics; std is the sample deviation over seeds; place is evaluated_on, `en` for `en-en`
-- key: figure_id
with

deviations as (

    select
        task,
        dataset,
        method,
        encoder,
        trained_on,
        evaluated_on,
        embedding,
        metric,
        settings,
        list_stddev_samp(list_sort(list(value))) as std  -- sorted: rounding depends on the order
    from evaluation.measurements
    where seed is not null
    group by all

),

aggregates as (

    select
        metrics.*,
        deviations.std,
        named.pairs,
        named.languages,
        case when json_valid(configured.settings) then configured.settings else '{}' end as method_settings,
        coalesce(configured.base_method, metrics.method) as named_base
    from evaluation.measurements as metrics
    left join deviations
        using (task, dataset, method, encoder, trained_on, evaluated_on, embedding, metric, settings)
    left join main.configured_methods as configured
        on metrics.method = configured.method
    inner join parts.trained_sets as named on metrics.trained_on = named.trained_on
    where
        metrics.seed is null
        -- settings that are not JSON are reported by a check
        and case
            when json_valid(metrics.settings)
                then coalesce(metrics.settings ->> 'split', 'test')
            else 'test'
        end = 'test'
        -- the gold score of the papers' correlations
        and case
            when json_valid(metrics.settings)
                then coalesce(metrics.settings ->> 'gold', 'z_mean')
            else 'z_mean'
        end
        = 'z_mean'
        -- the papers correct nothing for hubs
        and coalesce(try_cast(metrics.settings as json) ->> 'hubness', 'none') = 'none'

),

-- A variant gets the published name of what it leaves out, whatever its user calls it.
varied as (

    select
        *,
        case
            when starts_with(named_base, 'twosl') and method_settings is not null
                then case
                    when method_settings ->> 'filter' = 'false'
                        then case
                            when method_settings ->> 'contrastive' = 'false'
                                then 'twosl_no_filter-contrastive'
                            else 'twosl_no_filter'
                        end
                    when method_settings ->> 'contrastive' = 'false' then 'twosl_no_contrastive'
                    else named_base
                end
            else concat_ws('-', named_base, nullif(array_to_string(list_sort(
                from_json(method_settings -> 'without', '["varchar"]')
            ), '-'), ''))
        end as variant
    from aggregates

)

select
    task,
    dataset,
    method,
    encoder,
    trained_on,
    pairs,
    languages,
    evaluated_on,
    embedding,
    metric,
    value,
    ci_low,
    ci_high,
    std,
    n,
    settings,
    created_at,
    row_number() over (
        order by task, dataset, method, encoder, trained_on, evaluated_on, embedding, metric, settings
    ) as figure_id,
    case
        when variant = 'fmda' and len(pairs) > 1
            then 'fmda_unified'
        else variant
    end as base_method,
    (method_settings ->> 'examples')::bigint as examples,
    (method_settings ->> 'negatives_per_positive')::bigint as negatives,
    coalesce(method_settings ->> 'transfer', 'none') as transfer,
    coalesce(nullif(array_to_string(list_sort(
        from_json((method_settings -> 'training_languages'), '["varchar"]')
    ), '+'), ''), 'en') as labelled_languages,
    case
        when split_part(evaluated_on, '-', 1) = split_part(evaluated_on, '-', 2)
            then split_part(evaluated_on, '-', 1)
        when task = 'sts' and ends_with(evaluated_on, '-en') then 'en-' || split_part(evaluated_on, '-', 1)
        else evaluated_on
    end as place
from varied
