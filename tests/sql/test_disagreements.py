"""Case studies are queries on which methods disagree, drawn from all directions in turn."""

RELATIONS = ("disagreements",)
METHODS = ("raw", "dream", "fmda", "facet")


def ranked(query, right, *, on="en-de", **more):
    """First candidates of every method for one query; those in `right` find the gold one."""
    return [
        {
            "method": method,
            "embedding": "sentence" if method == "raw" else "meaning",
            "evaluated_on": on,
            "query_id": query,
            "candidate_id": query if method in right else f"not {query}",
            "is_gold": method in right,
            **more,
        }
        for method in METHODS
    ]


def chosen(warehouse):
    return warehouse.rows(
        "select distinct place, evaluated_on, query_id from disagreements order by place"
    )  # fmt: skip


def test_disagreements_list_evenly_split_queries_first_and_no_unanimous_ones(warehouse):
    warehouse.build(
        rankings=[*ranked("1", METHODS), *ranked("2", ("raw",)), *ranked("3", ("raw", "fmda")), *ranked("4", ())]
    )
    assert chosen(warehouse) == [(1, "en-de", "3"), (2, "en-de", "2")]


def test_ten_queries_alternate_between_directions(warehouse):
    numbers = [str(number) for number in range(20)]
    warehouse.build(
        rankings=[row for on in ("en-de", "de-en") for number in numbers for row in ranked(number, ("raw",), on=on)]
    )
    assert [on for _, on, _ in chosen(warehouse)] == ["de-en", "en-de"] * 5
    assert warehouse.ask("select count(*) as n from disagreements") == [{"n": 10 * len(METHODS)}]


def test_a_method_shows_one_answer_by_the_scored_embedding(warehouse):
    other = {"evaluated_on": "en-de", "query_id": "1", "method": "dream"}
    warehouse.build(
        rankings=[
            *ranked("1", ("dream",)),
            {**other, "embedding": "language", "candidate_id": "9", "is_gold": False},
            {**other, "embedding": "sentence", "candidate_id": "8", "is_gold": False},
            {**other, "trained_on": "en-de+en-es", "candidate_id": "7", "is_gold": False},
        ]
    )
    rows = warehouse.ask("select embedding, trained_on, is_gold from disagreements where method = 'dream'")
    assert rows == [{"embedding": "meaning", "trained_on": "en-de", "is_gold": True}]
