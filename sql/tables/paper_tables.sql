-- grain: one printed table of a paper, or one place of its text with figures
-- reads: nothing; the vocabulary of tables is written here
-- units: rows_are_methods is false where methods are columns; takes_ours where other methods fit as rows
with

paper_tables (paper, "table", shows, rows_are_methods, takes_ours) as (

    values
    ('fmda', 'T2', 'Translation retrieval on MASSIVE', true, true),
    ('fmda', 'T3', 'Template retrieval', true, true),
    ('fmda', 'T4', 'Losses left out, translation retrieval', true, false),
    ('fmda', 'T5', 'Training all together or in two stages', true, false),
    ('fmda', 'T6', 'Template retrieval with five targets', true, true),
    ('fmda', 'T9', 'One model for each pair, or for a mixture of pairs', false, false),
    ('dream', 'T2', 'Quality estimation of WMT20', true, true),
    ('dream', 'T4', 'Similarity across languages, STS 2017', true, true),
    ('dream', 'T5', 'Similarity within a language, STS 2017', true, true),
    ('dream', 'T6', 'Losses left out, quality estimation', false, false),
    ('twosl', 'T2', 'Slots of xSID from a few examples', true, true),
    ('twosl', 'T3', 'Slots of English ATIS', true, false),
    ('twosl', 'T4', 'Slots of MultiATIS++ after training on English', true, false),
    ('twosl', 'T5', 'Slots of xSID with three encoders', true, false),
    ('twosl', 'T8', 'Slots of MultiATIS++', true, true),
    ('twosl', 'T9', 'Standard deviation over seeds, xSID', true, true),
    ('twosl', 'T10', 'With and without the filter, xSID', true, false),
    ('twosl', 'text §1', 'Averages that the text tells', true, false),
    ('twosl', 'text §5', 'Silhouettes and gains that the text tells', true, false),
    ('twosl', 'text §5.1', 'Named entities, and deviations, that the text tells', true, false),
    ('oracle', 'T3', 'Tatoeba, averages over 14 and 36 languages', true, true),
    ('oracle', 'T4', 'Constraints left out', true, false),
    ('oracle', 'T8', 'Retrieval of held-out translations', true, true),
    ('oracle', 'T9', 'Tatoeba, mean of both directions', true, true),
    ('oracle', 'T10', 'Similarity, STS 2017', true, true),
    ('oracle', 'T11', 'Retrieval from code-switched sentences', true, true),
    ('oracle', 'text', 'Averages over seen and unseen languages', true, false),
    ('emu', 'T2a', 'Intents of HotelQA', true, true),
    ('emu', 'T2b', 'Intents of ATIS', true, false),
    ('emu', 'T2c', 'Intents of Quora', true, false),
    ('emu', 'T3', 'Languages of training, change against the encoder', false, false),
    ('emu', 'T4', 'All directions, change against the encoder', false, false),
    ('emu', 'T5', 'Parts left out, loss of accuracy', false, false)

)

select
    paper,
    "table",
    shows,
    rows_are_methods,
    takes_ours
from paper_tables
