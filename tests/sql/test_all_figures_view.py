"""Figures measured here, printed in papers and made by mteb stand in one view."""

RELATIONS = ("all_figures",)
MTEB = {
    "source": "theirs", "task": "tatoeba_retrieval", "dataset": "tatoeba", "method": "org/model", "encoder": "",
    "trained_on": "", "evaluated_on": "de-en", "embedding": "sentence", "metric": "accuracy_at_1", "value": 0.9,
    "mteb_task": "Tatoeba", "mteb_metric": "accuracy", "is_same": True, "split": "test", "model": "org/model",
    "revision": "1", "experiment": "", "settings": "{}",
}  # fmt: skip
MEASURED = {"task": "tatoeba_retrieval", "dataset": "tatoeba", "evaluated_on": "de-en", "method": "facet"}


def test_figures_of_all_origins_are_side_by_side(warehouse):
    warehouse.build(
        metrics=[MEASURED, MEASURED | {"seed": 0}, MEASURED | {"settings": '{"hubness": "csls"}'}],
        mteb_results=[MTEB, MTEB | {"metric": "f1", "mteb_metric": "f1", "is_same": False, "value": 0.8}],
    )
    asked = "select origin, method, value from all_figures where origin in ('measured', 'mteb') order by origin"
    assert warehouse.rows(asked) == [("measured", "facet", 0.5), ("mteb", "org/model", 0.9)]
    papers = warehouse.ask("select distinct origin from all_figures where origin not in ('measured', 'mteb')")
    assert {row["origin"] for row in papers} == {"dream", "emu", "fmda", "oracle", "twosl"}


def test_the_figures_have_main_scores_of_foreign_tasks_and_their_direction(warehouse):
    score = MTEB | {"task": "X", "metric": "main_score", "mteb_metric": "main_score", "is_same": False}
    warehouse.build(metrics=[{"task": "language_leakage"}, {"task": "sts"}], mteb_results=[score])
    assert len(warehouse.ask("from all_figures where origin = 'mteb'")) == 1
    asked = "select task, lower_is_better from all_figures where origin = 'measured'"
    assert dict(warehouse.rows(asked)) == {"language_leakage": True, "sts": False}
