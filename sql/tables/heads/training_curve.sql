-- grain: one term of one epoch of one seed
-- reads: inputs.training_curve, a file per method, encoder and trained_on
-- units: value is a loss or a dev metric, as its term says; epochs count from 1
-- key: method, encoder, trained_on, seed, epoch, split, term
select
    method,
    encoder,
    trained_on,
    seed,
    epoch,
    split,
    term,
    value,
    is_best
from inputs.training_curve
