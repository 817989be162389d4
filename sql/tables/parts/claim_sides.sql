-- grain: one claim on one data set, encoder and problem, where both of its sides were measured
-- reads: parts.claims, parts.measured_figures, main.configured_methods, heads.trainings
-- units: as main.metrics; errors are standard errors of the values
-- key: claim, problem, left_side, right_side
with

figures as (

    select
        figures.*,
        trainings.converged,
        try_cast(configured.settings as json) as method_settings,
        [
            figures.task,
            figures.dataset,
            figures.encoder,
            figures.evaluated_on,
            figures.metric,
            figures.settings
        ] as problem,
        [figures.method, figures.trained_on, figures.embedding] as side,
        (figures.ci_high - figures.ci_low) / (2 * 1.959964) as error,
        coalesce(trainings.head, concat_ws(' ', figures.method, figures.trained_on)) as head
    from parts.measured_figures as figures
    left join heads.trainings as trainings using (method, encoder, trained_on)
    left join main.configured_methods as configured on figures.method = configured.method

),

roles as (

    select
        *,
        'left' as part,
        left_method as side_method,
        left_embedding as side_embedding
    from parts.claims
    union all
    select
        *,
        'right' as part,
        right_method as side_method,
        right_embedding as side_embedding
    from parts.claims
    union all
    select
        *,
        'premise' as part,
        premise_method as side_method,
        premise_embedding as side_embedding
    from parts.claims

),

-- A method of the claim's own name comes first; if there is none, variants under other names stand for it.
named as (

    select
        figures.*,
        roles.claim,
        roles.part
    from roles
    inner join figures
        on
            roles.task = figures.task
            and roles.metric = figures.metric
            and roles.side_method = figures.base_method
            and roles.side_embedding = figures.embedding
    where
        case roles.evaluated_on
            when 'across languages'
                then
                    split_part(figures.evaluated_on, '-', 1) <> split_part(figures.evaluated_on, '-', -1)
            when 'within a language'
                then
                    split_part(figures.evaluated_on, '-', 1) = split_part(figures.evaluated_on, '-', -1)
            else coalesce(figures.evaluated_on = roles.evaluated_on, true)
        end
        and coalesce(
            (figures.method_settings ->> split_part(roles.setting, '=', 1))
            = split_part(roles.setting, '=', 2),
            true
        )
    qualify
        starts_with(figures.base_method, figures.method)
        or not bool_or(starts_with(figures.base_method, figures.method)) over (
            partition by roles.claim, roles.part, figures.dataset, figures.encoder
        )

),

-- Equal heads count once, under the first of their training sets.
paired as (

    select
        claims.*,
        l.problem,
        l.dataset,
        l.encoder,
        l.evaluated_on as problem_evaluated_on,
        l.settings,
        l.n,
        l.trained_on as left_trained_on,
        l.side as left_side,
        l.value as left_value,
        l.ci_low as left_low,
        l.ci_high as left_high,
        l.error as left_error,
        r.trained_on as right_trained_on,
        r.side as right_side,
        r.value as right_value,
        r.ci_low as right_low,
        r.ci_high as right_high,
        r.error as right_error,
        coalesce(l.converged, true) and coalesce(r.converged, true) as is_run_out
    from parts.claims as claims
    inner join named as l on claims.claim = l.claim and l.part = 'left'
    inner join named as r
        on
            claims.claim = r.claim
            and r.part = 'right'
            and l.problem = r.problem
            and l.transfer = r.transfer
            and coalesce(l.examples = r.examples, true)
    where
        case claims.training
            when 'mixture'
                then
                    len(l.pairs) > 1
                    and list_contains(l.pairs, r.trained_on)
            else l.trained_on = r.trained_on or l.trained_on = '' or r.trained_on = ''
        end
    qualify row_number() over (
        partition by claims.claim, l.problem, l.head, r.head
        order by l.trained_on, r.trained_on, l.method, r.method
    ) = 1

)

select
    paired.*,
    premises.side as premise_side,
    premises.value as premise_value,
    premises.error as premise_error
from paired
left join named as premises
    on
        paired.claim = premises.claim
        and premises.part = 'premise'
        and paired.problem = premises.problem
        and premises.trained_on in (paired.right_trained_on, '')
qualify row_number() over (
    partition by paired.claim, paired.problem, paired.left_side, paired.right_side order by premises.side
) = 1
