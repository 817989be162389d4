-- grain: one utterance
-- reads: inputs.masked_utterances, a file per corpus and language
-- units: none; residual_text is null if the utterance has no slot
-- key: corpus, language, utterance_id
select
    corpus,
    language,
    utterance_id,
    template_text,
    residual_text,
    template_key,
    residual_key
from inputs.masked_utterances
