-- grain: one utterance in the pool
-- reads: inputs.negative_pool, a file per corpus and language
-- units: max_bleu is a fraction, 0 to 1, over every other utterance of the language
-- key: corpus, language, utterance_id
select
    corpus,
    language,
    utterance_id,
    max_bleu,
    nearest_utterance_id
from inputs.negative_pool
