-- grain: one embedding by which a task ranks methods
-- reads: inputs.scored_embeddings, a file of the run that the tasks themselves write
-- units: preference counts from 1; a method enters with the embedding of lowest preference that it has
select
    task,
    embedding,
    preference
from inputs.scored_embeddings
