-- grain: one generated target that methods may train on
-- reads: inputs.training_template_pairs, a file per corpus and language
-- units: target_index counts the targets of a source from 0
-- key: corpus, language, source_utterance_id, target_index
select
    corpus,
    language,
    split,
    source_utterance_id,
    target_index,
    source_text,
    target_text,
    replaced_slots
from inputs.training_template_pairs
