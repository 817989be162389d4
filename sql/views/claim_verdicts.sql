-- grain: one claim on one data set and encoder; a claim without measurement has one row without them
-- reads: parts.claims, main.claim_cells
-- units: values are means over the cells; statistic is computed from them; cells_held counts single cells
with

means as (

    select
        claim,
        dataset,
        encoder,
        avg(left_value) as left_value,
        avg(right_value) as right_value,
        count(*) as cells,
        count_if(holds) as cells_held
    from main.claim_cells
    group by all

),

compared as (

    select
        claims.*,
        means.dataset,
        means.encoder,
        means.left_value,
        means.right_value,
        means.cells,
        means.cells_held,
        case
            when claims.statistic = 'ratio'
                then means.left_value / nullif(means.right_value, 0)
            else means.left_value - means.right_value
        end as found
    from parts.claims as claims
    left join means using (claim)

)

select
    paper,
    claim,
    says,
    dataset,
    encoder,
    left_value,
    right_value,
    statistic,
    found,
    cells,
    cells_held,
    left_method || ' ' || left_embedding as left_side,
    right_method || ' ' || right_embedding as right_side,
    case
        when cells is null then 'not measured'
        when found >= coalesce(low, found) and found <= coalesce(high, found) then 'held'
        else 'not held'
    end as verdict
from compared
order by paper, claim, encoder, dataset
