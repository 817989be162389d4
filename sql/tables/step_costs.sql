-- grain: one step on one partition that has made something, as it was last made
-- reads: inputs.step_costs
-- units: seconds, bytes; as of before the file was built (disent sql and disent costs have the newest)
-- key: asset, partition
select
    asset,
    partition,
    stage,
    encoder,
    method,
    made_at,
    seconds,
    processor_seconds,
    peak_memory,
    rows,
    texts,
    steps,
    machine
from inputs.step_costs
