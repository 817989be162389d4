-- grain: one utterance with its template
-- reads: corpora.utterances
-- units: typed_template has [type] for each slot value, bare_template []; case and spacing are ignored
-- key: corpus, language, utterance_id
with

positions as (

    select
        corpus,
        language,
        split,
        utterance_id,
        text,
        unnest(tokens) as token,
        unnest(slot_tags) as tag,
        generate_subscripts(tokens, 1) as place
    from corpora.utterances

)

select
    corpus,
    language,
    split,
    utterance_id,
    lower(trim(regexp_replace(any_value(text), '\s+', ' ', 'g'))) as plain_text,
    string_agg(
        case when tag = 'O' then lower(token) else '[' || substring(tag, 3) || ']' end, ' ' order by place
    ) as typed_template,
    string_agg(case when tag = 'O' then lower(token) else '[]' end, ' ' order by place) as bare_template
from positions
where not starts_with(tag, 'I-')
group by corpus, language, split, utterance_id
