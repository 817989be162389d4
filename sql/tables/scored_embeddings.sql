-- grain: one embedding that may enter a task's leaderboard
-- reads: nothing; written here as the tasks have it in Python, and a test holds both together
-- units: preference counts from 1: a method enters with the first of them that it has
with

scored (task, embedding, preference) as (

    values
    ('template_retrieval', 'template', 1),
    ('template_retrieval', 'meaning', 2),
    ('template_retrieval', 'sentence', 3),
    ('multi_target_template_retrieval', 'template', 1),
    ('multi_target_template_retrieval', 'meaning', 2),
    ('multi_target_template_retrieval', 'sentence', 3),
    ('crosslingual_retrieval', 'meaning', 1),
    ('crosslingual_retrieval', 'sentence', 2),
    ('tatoeba_retrieval', 'meaning', 1),
    ('tatoeba_retrieval', 'sentence', 2),
    ('heldout_retrieval', 'meaning', 1),
    ('heldout_retrieval', 'sentence', 2),
    ('code_switched_retrieval', 'meaning', 1),
    ('code_switched_retrieval', 'sentence', 2),
    ('bitext_mining', 'meaning', 1),
    ('bitext_mining', 'sentence', 2),
    ('sts', 'meaning', 1),
    ('sts', 'sentence', 2),
    ('qe', 'meaning', 1),
    ('qe', 'sentence', 2),
    ('intent_knn', 'meaning', 1),
    ('intent_knn', 'sentence', 2),
    ('slot_labelling', 'meaning', 1),
    ('slot_labelling', 'sentence', 2),
    ('ner', 'meaning', 1),
    ('ner', 'sentence', 2),
    ('clustering', 'meaning', 1),
    ('clustering', 'sentence', 2),
    ('intent_probe', 'meaning', 1),
    ('intent_probe', 'sentence', 2),
    ('language_identification', 'language', 1),
    ('language_identification', 'sentence', 2)

)

select
    task,
    embedding,
    preference
from scored
