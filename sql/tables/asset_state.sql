-- grain: one partition of an asset
-- reads: inputs.asset_state
-- units: state is fresh, stale, missing or failed, as of before the file was built; disent sql has the newest
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
