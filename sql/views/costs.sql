-- grain: one step on one partition, of the encoders and methods of the configuration
-- reads: main.step_costs, main.encoders, main.configured_methods
-- units: as main.step_costs; share_of_all is of the processor seconds of all rows
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
    machine,
    processor_seconds / nullif(sum(processor_seconds) over (), 0) as share_of_all,
    processor_seconds / nullif(seconds, 0) as cores
from main.step_costs
where
    (encoder is null or encoder in (select encoders.encoder from main.encoders))
    and (method is null or method in (select configured_methods.method from main.configured_methods))
