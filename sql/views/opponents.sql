-- grain: two of the sides ours, published, lexicon and states on one task, data set, encoder and direction
-- reads: main.headline, main.comparisons, parts.measured_figures, parts.methods, main.published_metrics
-- units: as main.headline; difference is value minus other_value; stands: p_holm < 0.05, null if not tested
--
-- side and other_side are what a side stands for:
--   ours       facet
--   published  of the papers' trained methods, in any setting, the one that is best in this direction
--   lexicon    words without an encoder
--   states     facet without the words
with

variants as (

    select
        figures.method,
        any_value(figures.base_method) as variant
    from parts.measured_figures as figures
    group by figures.method

),

sides as (

    select
        headline.*,
        case
            when variants.variant = 'facet' then 'ours'
            when variants.variant = 'lexicon' then 'lexicon'
            when variants.variant = 'facet-words' then 'states'
            else 'published'
        end as side
    from main.headline
    inner join variants using (method)
    where
        variants.variant in ('facet', 'lexicon', 'facet-words')
        or split_part(variants.variant, '-', 1) in (
            select methods.method
            from parts.methods
            where
                methods.is_trained
                and methods.method in (select published_metrics.method from main.published_metrics)
        )

),

best as (

    select *
    from sides
    qualify row_number() over (partition by task, dataset, encoder, evaluated_on, side order by rank) = 1

),

tests as (

    select
        p_holm,
        ci_low,
        ci_high,
        [task, dataset, encoder, evaluated_on, metric, settings] as problem,
        [method_a, trained_on_a, embedding_a] as tested,
        [method_b, trained_on_b, embedding_b] as against
    from main.comparisons
    union all
    select
        p_holm,
        -ci_high as ci_low,
        -ci_low as ci_high,
        [task, dataset, encoder, evaluated_on, metric, settings] as problem,
        [method_b, trained_on_b, embedding_b] as tested,
        [method_a, trained_on_a, embedding_a] as against
    from main.comparisons

)

select
    mine.task,
    mine.dataset,
    mine.encoder,
    mine.evaluated_on,
    mine.side,
    mine.method,
    mine.value,
    theirs.side as other_side,
    theirs.method as other,
    theirs.value as other_value,
    tests.ci_low as difference_low,
    tests.ci_high as difference_high,
    tests.p_holm,
    mine.metric,
    mine.reads_as,
    least(mine.n, theirs.n) as n,
    mine.value - theirs.value as difference,
    tests.p_holm < 0.05 as stands
from best as mine
inner join best as theirs
    on
        mine.task = theirs.task
        and mine.dataset = theirs.dataset
        and mine.encoder = theirs.encoder
        and mine.evaluated_on = theirs.evaluated_on
        and (mine.side, theirs.side) in (
            ('ours', 'published'), ('ours', 'lexicon'), ('ours', 'states'), ('published', 'lexicon')
        )
left join tests
    on
        tests.problem
        = [mine.task, mine.dataset, mine.encoder, mine.evaluated_on, mine.metric, mine.settings]
        and tests.tested = [mine.method, mine.trained_on, mine.embedding]
        and tests.against = [theirs.method, theirs.trained_on, theirs.embedding]
order by mine.task, mine.dataset, mine.encoder, mine.evaluated_on, mine.side, theirs.side
