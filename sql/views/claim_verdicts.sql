-- grain: one claim on one data set and encoder; a claim without measurement has one row without them
-- reads: parts.claims, parts.claim_causes, main.claim_cells
-- units: values, found and margin are means over the judged cells; margin is inside of the bounds if positive
-- key: claim, dataset, encoder
--
-- verdict:
--   held            a claim about the average: the interval of margin is above 0; a claim about the cells:
--                   more than half of the judged cells are for it, none is against it
--   not held        the average: the interval of margin is below 0; the cells: more than half are against it,
--                   none is for it
--   undecided       neither, or every cell was cut short or untested
--   premise absent  no cell could be judged because what the claim presupposes is not there
--   not measured    no cell has both sides
--
-- verdict_page is the verdict if tests are corrected over all claims, data sets and encoders: a cell counts
-- if p_page < 0.05, an average if its p times the number of all judged cells is below 0.05 (Bonferroni)
--
-- cause is where the runs that have been looked at see the reason of a claim that is not held: data, encoder,
-- training (of this method, or too little of it) or reading (of what the paper prints)
with

counts as (

    select
        claim,
        dataset,
        encoder,
        count(*) as cells,
        count_if(standing in ('for', 'against', 'open'))::bigint as judged,
        count_if(standing = 'for')::bigint as cells_for,
        count_if(standing = 'against')::bigint as cells_against,
        count_if(standing = 'for' and p_page < 0.05)::bigint as page_for,
        count_if(standing = 'against' and p_page < 0.05)::bigint as page_against,
        count_if(standing = 'premise absent')::bigint as without_premise,
        count_if(standing = 'cut short')::bigint as cut_short,
        string_agg(distinct left_method, ' and ' order by left_method) as left_methods,
        string_agg(distinct right_method, ' and ' order by right_method) as right_methods
    from main.claim_cells
    group by all

),

-- Of the cells that can be judged; if there is none, of all.
means as (

    select
        cells.claim,
        cells.dataset,
        cells.encoder,
        min(cells.n) as n,
        avg(cells.left_value) as left_value,
        avg(cells.right_value) as right_value,
        avg(cells.margin_low) as mean_low,
        avg(cells.error_low) as error_low,
        avg(cells.margin_high) as mean_high,
        avg(cells.error_high) as error_high
    from main.claim_cells as cells
    inner join counts using (claim, dataset, encoder)
    where counts.judged = 0 or cells.standing in ('for', 'against', 'open')
    group by all

),

-- The error of a mean over cells is at most the mean of their errors: cells share heads and texts.
ends as (

    select
        *,
        coalesce(mean_low / error_low <= mean_high / error_high, mean_low is not null) as is_low
    from means

),

averaged as (

    select
        counts.*,
        ends.n,
        ends.left_value,
        ends.right_value,
        case when ends.is_low then ends.mean_low else ends.mean_high end as margin,
        case when ends.is_low then ends.error_low else ends.error_high end as error
    from counts
    inner join ends using (claim, dataset, encoder)

),

-- The two-sided p of the mean margin, by the formula of claim_cells.
scaled as (

    select
        *,
        margin / error as z,
        1 / (1 + 0.2316419 * abs(margin / error)) as t
    from averaged

),

pooled as (

    select
        *,
        least(1.0, 2 * exp(-z * z / 2) / sqrt(2 * pi()) * t * (0.319381530 + t * (
            -0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))
        ))) * sum(judged) over () as page_p
    from scaled

),

judged as (

    select
        claims.paper,
        claims.place,
        claims.claim,
        claims.says,
        pooled.dataset,
        pooled.encoder,
        pooled.left_value,
        pooled.right_value,
        claims.statistic,
        claims.low,
        claims.high,
        claims.over,
        pooled.margin,
        pooled.n,
        pooled.cells,
        pooled.judged,
        pooled.cells_for,
        pooled.cells_against,
        pooled.without_premise,
        pooled.cut_short,
        pooled.page_p,
        pooled.page_for,
        pooled.page_against,
        case claims.statistic
            when 'ratio' then pooled.left_value / nullif(pooled.right_value, 0)
            else pooled.left_value - pooled.right_value
        end as found,
        pooled.margin - 1.959964 * pooled.error as margin_low,
        pooled.margin + 1.959964 * pooled.error as margin_high,
        coalesce(pooled.left_methods, claims.left_method) || ' ' || claims.left_embedding as left_side,
        coalesce(pooled.right_methods, claims.right_method) || ' ' || claims.right_embedding as right_side,
        case
            when pooled.cells is null then 'not measured'
            when pooled.judged = 0 and pooled.without_premise > 0 and pooled.cut_short = 0
                then 'premise absent'
            when pooled.judged = 0 then 'undecided'
            when claims.over = 'average'
                then case
                    when pooled.margin > 1.959964 * pooled.error then 'held'
                    when pooled.margin < -1.959964 * pooled.error then 'not held'
                    else 'undecided'
                end
            when 2 * pooled.cells_for > pooled.judged and pooled.cells_against = 0 then 'held'
            when 2 * pooled.cells_against > pooled.judged and pooled.cells_for = 0 then 'not held'
            else 'undecided'
        end as verdict
    from parts.claims as claims
    left join pooled using (claim)

),

paged as (

    select
        * exclude (page_p, page_for, page_against),
        case
            when over = 'average' and page_p >= 0.05 and verdict in ('held', 'not held') then 'undecided'
            when over = 'cells' and verdict = 'held' and 2 * page_for <= judged then 'undecided'
            when over = 'cells' and verdict = 'not held' and 2 * page_against <= judged then 'undecided'
            else verdict
        end as verdict_page
    from judged

)

select
    paged.*,
    causes.cause,
    causes.why
from paged
left join parts.claim_causes as causes
    on paged.claim = causes.claim and paged.encoder = causes.encoder and paged.verdict = 'not held'
order by paged.paper, paged.place, paged.claim, paged.encoder, paged.dataset
