-- grain: one method of the library; variants that a user names are not in it
-- reads: nothing; the vocabulary of methods is written here
-- units: is_trained says whether it has a fit on training data, hence a trained_on
with

methods (method, is_trained) as (

    values
    ('raw', false),
    ('bertscore', false),
    ('centered', true),
    ('projection', true),
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
