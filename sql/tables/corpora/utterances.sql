-- grain: one utterance of one corpus and language
-- reads: inputs.utterances, a file per corpus and language
-- units: none; tokens and slot_tags are lists of equal length
-- key: corpus, language, utterance_id
select
    corpus,
    language,
    utterance_id,
    split,
    domain,
    intent,
    text,
    tokens,
    slot_tags,
    text_key
from inputs.utterances
