-- grain: one pair of sentences of one corpus
-- reads: inputs.sentence_pairs, a file per corpus and language pair
-- units: score is the gold similarity, 0 to 5, or the z-normalised quality; mean_score the quality, 0 to 100
-- key: corpus, pair, pair_id
select
    corpus,
    pair,
    pair_id,
    split,
    source,
    target,
    score,
    mean_score,
    source_key,
    target_key
from inputs.sentence_pairs
