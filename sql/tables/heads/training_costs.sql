-- grain: one head whose training was measured
-- reads: inputs.training_costs
-- units: seconds are of the clock, processor_seconds of all threads, both of all seeds together
-- key: method, encoder, trained_on
select
    method,
    encoder,
    trained_on,
    seconds,
    processor_seconds,
    machine
from inputs.training_costs
