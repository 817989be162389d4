-- grain: one cell of FMDA table 2, 3 or 6, for one embedding of one method, training, data set and encoder
-- reads: main.published_metrics, main.metrics
-- units: fractions, 0 to 1
with

paper_tables ("table", task, metric, kind) as (

    values
    ('T2', 'crosslingual_retrieval', 'accuracy_at_1', 'direction'),
    ('T3', 'template_retrieval', 'accuracy_at_1', 'language'),
    ('T6', 'multi_target_template_retrieval', 'map', 'language')

),

paper_columns (kind, pair, evaluated_on, cell) as (

    values
    ('direction', 'en-de', 'en-de', 'en_de'),
    ('direction', 'en-de', 'de-en', 'de_en'),
    ('direction', 'en-es', 'en-es', 'en_es'),
    ('direction', 'en-es', 'es-en', 'es_en'),
    ('direction', 'en-ja', 'en-ja', 'en_ja'),
    ('direction', 'en-ja', 'ja-en', 'ja_en'),
    ('language', 'en-de', 'en', 'en_de_on_en'),
    ('language', 'en-de', 'de', 'en_de_on_de'),
    ('language', 'en-es', 'en', 'en_es_on_en'),
    ('language', 'en-es', 'es', 'en_es_on_es'),
    ('language', 'en-ja', 'en', 'en_ja_on_en'),
    ('language', 'en-ja', 'ja', 'en_ja_on_ja')

),

layout as (

    select
        paper_tables."table",
        paper_tables.task,
        paper_tables.metric,
        paper_columns.pair,
        paper_columns.evaluated_on,
        paper_columns.cell
    from paper_tables
    inner join paper_columns using (kind)

),

published as (

    select
        layout."table",
        layout.cell,
        figures.method,
        figures.embedding,
        figures.value,
        'each pair' as training
    from main.published_metrics as figures
    inner join layout
        on
            figures."table" = layout."table"
            and figures.evaluated_on = layout.evaluated_on
            and coalesce(nullif(figures.trained_on, ''), figures.settings ->> 'column_group') = layout.pair
    where figures.paper = 'fmda'

),

-- A model meets the columns of its own pair, a mixture those of all its pairs, an untrained method all.
measured as (

    select
        layout."table",
        layout.cell,
        metrics.method,
        metrics.embedding,
        metrics.dataset,
        metrics.encoder,
        if(contains(metrics.trained_on, '+'), metrics.trained_on, 'each pair') as training,
        arg_max(metrics.value, metrics.created_at) as figure
    from main.metrics
    inner join layout
        on
            metrics.task = layout.task
            and metrics.metric = layout.metric
            and metrics.evaluated_on = layout.evaluated_on
            and (
                metrics.trained_on = ''
                or list_contains(string_split(metrics.trained_on, '+'), layout.pair)
            )
    where metrics.seed is null
    group by all

),

rows as (

    select distinct
        "table",
        method,
        embedding,
        training,
        measured.dataset,
        measured.encoder
    from published
    full outer join measured using ("table", method, embedding, training)

)

select
    rows."table",
    rows.method,
    rows.embedding,
    rows.training,
    rows.dataset,
    rows.encoder,
    layout.cell,
    published.value as published,
    measured.figure as measured,
    round(measured.figure - published.value, 6) as difference
from rows
inner join layout using ("table")
left join published
    on
        rows."table" = published."table"
        and rows.method = published.method
        and rows.embedding = published.embedding
        and rows.training = published.training
        and layout.cell = published.cell
left join measured
    on
        rows."table" = measured."table"
        and rows.method = measured.method
        and rows.embedding = measured.embedding
        and rows.training = measured.training
        and rows.dataset = measured.dataset
        and rows.encoder = measured.encoder
        and layout.cell = measured.cell
