-- grain: two of the sides ours, published, lexicon and states on one task, data set, encoder and direction
-- reads: main.headline, parts.paired_tests, parts.measured_figures, parts.methods, main.published_metrics
-- units: as main.headline; difference is value minus other_value; stands: p_holm < 0.05, null if not tested
-- key: problem_id, side, other_side
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
    qualify row_number() over (partition by problem_id, side order by rank) = 1

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
    mine.problem_id,
    mine.number_id,
    theirs.number_id as other_number_id,
    least(mine.n, theirs.n) as n,
    mine.value - theirs.value as difference,
    tests.p_holm < 0.05 as stands
from best as mine
inner join best as theirs
    on
        mine.problem_id = theirs.problem_id
        and (mine.side, theirs.side) in (
            ('ours', 'published'), ('ours', 'lexicon'), ('ours', 'states'), ('published', 'lexicon')
        )
left join parts.paired_tests as tests
    on mine.number_id = tests.number_id and theirs.number_id = tests.other_number_id
order by mine.task, mine.dataset, mine.encoder, mine.evaluated_on, mine.side, theirs.side
