-- grain: one method of the configuration
-- reads: inputs.configured_methods, a file of the run
-- units: settings is JSON of all settings; base_method is the method of the library that it configures
-- key: method
-- may_stop_early: early stopping decides when training ends
select
    method,
    base_method,
    settings,
    may_stop_early
from inputs.configured_methods
