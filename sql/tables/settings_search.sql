-- grain: one trial of a search of settings
-- reads: inputs.settings_search, a file per encoder
-- units: translation, template and score are accuracy@1 on dev, 0 to 1
-- key: encoder, method, trial
select
    encoder,
    method,
    trial,
    name,
    settings,
    translation,
    template,
    score,
    is_chosen,
    fingerprint,
    created_at
from inputs.settings_search
