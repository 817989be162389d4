-- grain: one relative claim of a paper (METHODS of the five papers), or one of our own
-- reads: nothing; the claims are written here
-- units: low and high bound the statistic (left minus right, or left divided by right); null is no bound
with

claims (
    claim, paper, says, task, metric,
    left_method, left_embedding, right_method, right_embedding, statistic, low, high
) as (

    values
    (
        'fmda_beats_dream', 'fmda',
        'FMDA retrieves translations better than DREAM (0.594 against 0.550)',
        'crosslingual_retrieval', 'accuracy_at_1',
        'fmda', 'meaning', 'dream', 'meaning', 'difference', 0.0, null
    ),
    (
        'dream_beats_raw', 'fmda',
        'DREAM retrieves translations better than the encoder (0.550 against 0.182)',
        'crosslingual_retrieval', 'accuracy_at_1',
        'dream', 'meaning', 'raw', 'sentence', 'difference', 0.0, null
    ),
    (
        'fmda_needs_contrast', 'fmda', 'FMDA without its contrasts collapses (0.594 to 0.24)',
        'crosslingual_retrieval', 'accuracy_at_1',
        'fmda-contrast', 'meaning', 'fmda', 'meaning', 'ratio', null, 0.5
    ),
    (
        'two_stages_find_templates', 'fmda',
        'Two-stage training lifts template retrieval (0.43 to 0.81)',
        'template_retrieval', 'accuracy_at_1',
        'fmda_two_stage', 'template', 'fmda', 'template', 'difference', 0.0, null
    ),
    (
        'dream_helps_sts', 'dream',
        'On average over the pairs DREAM is above the encoder on cross-lingual STS',
        'sts', 'pearson',
        'dream', 'meaning', 'raw', 'sentence', 'difference', 0.0, null
    ),
    (
        'dream_helps_qe', 'dream',
        'On average over the pairs DREAM is above the encoder on quality estimation',
        'qe', 'pearson',
        'dream', 'meaning', 'raw', 'sentence', 'difference', 0.0, null
    ),
    (
        'dream_needs_meaning_loss', 'dream',
        'DREAM without its meaning losses collapses (quality estimation)',
        'qe', 'pearson',
        'dream-meaning', 'meaning', 'dream', 'meaning', 'ratio', null, 0.5
    ),
    (
        'dream_needs_meaning_loss_in_retrieval', 'dream', 'The same, read on translation retrieval',
        'crosslingual_retrieval', 'accuracy_at_1',
        'dream-meaning', 'meaning', 'dream', 'meaning', 'ratio', null, 0.5
    ),
    (
        'oracle_cleans_dream', 'oracle',
        'ORACLE cuts what DREAM''s language embedding retrieves, by 2 to 39 times',
        'crosslingual_retrieval', 'accuracy_at_1',
        'dream_oracle', 'language', 'dream', 'language', 'ratio', null, 0.5
    ),
    (
        'oracle_cleans_meat', 'oracle',
        'ORACLE cuts what MEAT''s language embedding retrieves, by 2 to 39 times',
        'crosslingual_retrieval', 'accuracy_at_1',
        'meat_oracle', 'language', 'meat', 'language', 'ratio', null, 0.5
    ),
    (
        'oracle_keeps_dream', 'oracle',
        'ORACLE moves DREAM''s meaning retrieval by 0.0 to +1.3 points',
        'crosslingual_retrieval', 'accuracy_at_1',
        'dream_oracle', 'meaning', 'dream', 'meaning', 'difference', -0.0005, 0.0135
    ),
    (
        'oracle_keeps_meat', 'oracle',
        'ORACLE moves MEAT''s meaning retrieval by 0.0 to +1.3 points',
        'crosslingual_retrieval', 'accuracy_at_1',
        'meat_oracle', 'meaning', 'meat', 'meaning', 'difference', -0.0005, 0.0135
    ),
    (
        'contrastive_stage_helps', 'twosl',
        'The contrastive stage adds 9 to 23 points of F1 on average',
        'slot_labelling', 'micro_f1',
        'twosl', 'sentence', 'twosl_no_contrastive', 'sentence', 'difference', 0.09, null
    ),
    (
        'filter_is_free', 'twosl',
        'With and without the filter F1 is the same within 1 point on average',
        'slot_labelling', 'micro_f1',
        'twosl_no_filter', 'sentence', 'twosl', 'sentence', 'difference', -0.01, 0.01
    ),
    (
        'emu_beats_raw', 'emu',
        'EMU is above the encoder on intents, on average over the directions',
        'intent_knn', 'accuracy_at_1',
        'emu', 'sentence', 'raw', 'sentence', 'difference', 0.0, null
    ),
    (
        'softmax_below_raw', 'emu',
        'The plain softmax loss falls below the encoder almost everywhere',
        'intent_knn', 'accuracy_at_1',
        'softmax', 'sentence', 'raw', 'sentence', 'difference', null, 0.0
    ),
    (
        'contrastive_below_raw', 'emu',
        'The contrastive loss falls below the encoder almost everywhere',
        'intent_knn', 'accuracy_at_1',
        'contrastive', 'sentence', 'raw', 'sentence', 'difference', null, 0.0
    ),
    (
        'npair_below_raw', 'emu', 'The N-pair loss falls below the encoder almost everywhere',
        'intent_knn', 'accuracy_at_1',
        'npair', 'sentence', 'raw', 'sentence', 'difference', null, 0.0
    ),
    (
        'facet_beats_fmda', 'ours', 'facet retrieves translations better than FMDA',
        'crosslingual_retrieval', 'accuracy_at_1',
        'facet', 'meaning', 'fmda', 'meaning', 'difference', 0.0, null
    ),
    (
        'facet_beats_two_stages', 'ours',
        'facet finds templates better than two-stage FMDA, in one training run',
        'template_retrieval', 'accuracy_at_1',
        'facet', 'template', 'fmda_two_stage', 'template', 'difference', 0.0, null
    ),
    (
        'facet_leaks_less', 'ours',
        'facet''s language embedding retrieves less than that of DREAM with ORACLE',
        'crosslingual_retrieval', 'accuracy_at_1',
        'facet', 'language', 'dream_oracle', 'language', 'difference', null, 0.0
    )

)

select
    claim,
    paper,
    says,
    task,
    metric,
    left_method,
    left_embedding,
    right_method,
    right_embedding,
    statistic,
    low,
    high
from claims
