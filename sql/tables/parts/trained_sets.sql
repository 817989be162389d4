-- grain: one trained_on of main.metrics, or a named training set
-- reads: evaluation.measurements, inputs.training_sets, a file of the run
-- units: pairs that a head is trained on, and their languages; of a named set as it is configured
-- key: trained_on
with

known as (

    select trained_on
    from evaluation.measurements
    union
    select training_set as trained_on
    from inputs.training_sets

)

select
    known.trained_on,
    coalesce(named.pairs, string_split(known.trained_on, '+')) as pairs,
    coalesce(named.languages, regexp_extract_all(known.trained_on, '[a-z]+(-[A-Z]\w*)?')) as languages
from known
left join inputs.training_sets as named on known.trained_on = named.training_set
