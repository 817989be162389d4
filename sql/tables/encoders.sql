-- grain: one encoder of the configuration
-- reads: inputs.encoders, a file of the run
-- units: settings is JSON of all settings but paths; encoder_saw is null if nothing says it
-- key: encoder
select
    encoder,
    kind,
    encoder_saw,
    settings
from inputs.encoders
