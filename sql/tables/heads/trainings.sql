-- grain: one head: a method on an encoder with a training set
-- reads: heads.training_curve, main.configured_methods
-- units: head is equal for equal heads; converged is null if no early stopping decides when training ends
-- key: method, encoder, trained_on
with

by_seed as (

    select
        method,
        encoder,
        trained_on,
        seed,
        max(epoch) as last_epoch,
        max(epoch) filter (where is_best and split = 'dev') as best_epoch
    from heads.training_curve
    group by all

),

-- Equal curves of all seeds, to the last digit: the same head. A method that trains on English alone has the
-- same head under each pair.
curves as (

    select
        method,
        encoder,
        trained_on,
        md5(string_agg(
            concat_ws(' ', seed, epoch, split, term, value), ';' order by seed, epoch, split, term
        )) as head
    from heads.training_curve
    group by all

)

select
    by_seed.method,
    by_seed.encoder,
    by_seed.trained_on,
    any_value(curves.head) as head,
    count(*) as seeds,
    max(by_seed.last_epoch) as epochs,
    -- As the check training_has_converged of the head: the best epoch is the last one.
    count_if(by_seed.best_epoch = by_seed.last_epoch)::bigint as best_in_last_epoch,
    case
        when coalesce(bool_or(configured.may_stop_early), false)
            then count_if(by_seed.best_epoch = by_seed.last_epoch) = 0
    end as converged
from by_seed
inner join curves using (method, encoder, trained_on)
left join main.configured_methods as configured using (method)
group by by_seed.method, by_seed.encoder, by_seed.trained_on
