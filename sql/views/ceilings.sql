-- grain: template retrieval in one language and split of a corpus
-- reads: targets.template_pairs, parts.templates
-- units: accuracies, 0 to 1, with the first target of each source as candidates (template_pool = "targets")
-- key: dataset, evaluated_on, split
--
-- Sources of one template have targets that nothing tells apart. Who knows every template and draws
-- among equal ones finds the gold target with 1 / (sources of the template).
with

sources as (

    select distinct
        corpus,
        language,
        split,
        source_utterance_id as utterance_id
    from targets.template_pairs
    where target_index = 0

),

alike as (

    select
        templates.corpus,
        templates.language,
        templates.split,
        count(*) over (
            partition by templates.corpus, templates.language, templates.split, templates.typed_template
        ) as of_template,
        count(*) over (
            partition by templates.corpus, templates.language, templates.split, templates.bare_template
        ) as of_bare_template
    from sources
    inner join parts.templates as templates using (corpus, language, split, utterance_id)

)

select
    corpus as dataset,
    language as evaluated_on,
    split,
    count(*) as n,
    avg((of_template = 1)::int) as told_apart,
    avg(1 / of_template) as ceiling,
    avg(1 / of_bare_template) as ceiling_without_types
from alike
group by all
order by dataset, evaluated_on, split
