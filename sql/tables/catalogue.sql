-- grain: one column of a relation of the warehouse
-- reads: inputs.catalogue, filled when all relations are there, from their headers and descriptions
-- units: none
-- key: relation, column_name
select
    relation,
    kind,
    grain,
    column_name,
    place,
    data_type,
    role,
    is_key,
    description
from inputs.catalogue
