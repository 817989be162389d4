-- grain: one duplicated published cell
-- reads: main.published_metrics
-- units: copies counts rows
-- severity: error
-- excludes: figures of running text, which repeat each other and their tables
select
    * exclude (value, n, note),
    count(*) as copies
from main.published_metrics
where not starts_with("table", 'text')
group by all
having count(*) > 1
