-- grain: one translation pair with other slot values, which methods may train on
-- reads: inputs.parallel_mates, a file per training set; two training sets may have the same rows
-- units: mate_index counts the mates of an utterance from 0
-- key: corpus, pair, utterance_id, mate_index
select distinct
    corpus,
    pair,
    split,
    utterance_id,
    mate_index,
    source_language,
    target_language,
    source_text,
    target_text,
    replaced_slots
from inputs.parallel_mates
