-- grain: one sentence of a pair with some words replaced by their translations
-- reads: inputs.code_switched_pairs, a file per corpus and language pair
-- units: words counts the words of the sentence, replaced_words lists those replaced
-- key: corpus, pair, pair_id, switched_language
select
    corpus,
    pair,
    pair_id,
    split,
    switched_language,
    switched,
    original_language,
    original,
    words,
    replaced_words
from inputs.code_switched_pairs
