-- grain: one partition of an asset
-- reads: inputs.asset_state
-- units: state is fresh, stale, missing or failed, as of the end of the last run
-- key: asset, partition
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
