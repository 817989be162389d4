-- grain: one method of the library; variants that a user names are not in it
-- reads: nothing; the vocabulary of methods is written here
-- units: is_trained is null where it depends on the settings (a mean or a map over the test side itself)
with

methods (method, is_trained) as (

    values
    ('raw', false),
    ('bertscore', false),
    ('centered', null),
    ('projection', null),
    ('dream', true),
    ('meat', true),
    ('oracle', true),
    ('dream_oracle', true),
    ('meat_oracle', true),
    ('fmda', true),
    ('fmda_two_stage', true),
    ('fmda_unified', true),
    ('facet', true),
    ('tuned', true),
    ('emu', true),
    ('emu_no_discriminator', true),
    ('emu_no_discriminator_no_center', true),
    ('emu_parallel', true),
    ('softmax', true),
    ('contrastive', true),
    ('npair', true),
    ('twosl', true),
    ('twosl_no_contrastive', true),
    ('twosl_no_filter', true),
    ('token_classification', true)

)

select
    method,
    is_trained
from methods
