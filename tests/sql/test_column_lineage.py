"""`sql/column_lineage.csv` is what the queries say."""

import pytest
from made_warehouses import SQL

from disent_assets.warehouse.sql_files import COLUMN_LINEAGE
from tools.column_lineage import column_lineage


def test_the_file_is_that_of_the_queries():
    assert (SQL / COLUMN_LINEAGE).read_text(encoding="utf-8") == column_lineage(SQL)


def test_a_union_by_name_is_refused(sql_copy):
    (sql_copy / "views" / "costs.sql").write_text("select 1 as a union all by name select 2 as a", encoding="utf-8")
    with pytest.raises(ValueError, match=r"main\.costs: .* without `by name`"):
        column_lineage(sql_copy)
