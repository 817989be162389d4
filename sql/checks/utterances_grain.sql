-- grain: one duplicated utterance
-- reads: corpora.utterances
-- units: copies counts rows
-- severity: error
-- excludes: nothing; ids are unique within corpus and language
select
    corpus,
    language,
    utterance_id,
    count(*) as copies
from corpora.utterances
group by all
having count(*) > 1
