-- grain: one step on one partition, of the encoders and methods of the configuration
-- reads: main.step_costs, main.encoders, main.configured_methods
-- units: as main.step_costs; share_of_all is of the processor seconds of all rows
-- key: asset, partition
select
    step_costs.*,
    step_costs.processor_seconds / nullif(sum(step_costs.processor_seconds) over (), 0) as share_of_all,
    step_costs.processor_seconds / nullif(step_costs.seconds, 0) as cores
from main.step_costs
where
    (step_costs.encoder is null or step_costs.encoder in (select encoders.encoder from main.encoders))
    and (
        step_costs.method is null
        or step_costs.method in (select configured_methods.method from main.configured_methods)
    )
