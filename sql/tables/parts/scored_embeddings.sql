-- grain: one embedding by which a task ranks methods
-- reads: inputs.scored_embeddings, a file of the run, written from the tasks
-- units: preference counts from 1; a method is ranked by its embedding of lowest preference
-- key: task, embedding
select
    task,
    embedding,
    preference,
    lower_is_better
from inputs.scored_embeddings
