-- grain: one partition of an asset
-- reads: inputs.asset_state, as recorded before this file was built; disent sql reads the newest record
-- units: state is fresh, stale, missing or failed
select
    asset,
    partition,
    stage,
    encoder,
    method,
    state,
    why,
    waits,
    since,
    recorded_at
from inputs.asset_state
