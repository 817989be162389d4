-- grain: one method of the configuration
-- reads: inputs.configured_methods, a file of the run
-- units: settings is JSON of all settings; base_method is the method of the library that it configures
select
    method,
    base_method,
    settings
from inputs.configured_methods
