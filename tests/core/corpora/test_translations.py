"""Rows that are joined as translations and differ in intent: counted, and refused above a share."""

import pyarrow as pa
import pytest

from disent_core.corpora.translations import MOST_OTHER_INTENTS, check_intents
from disent_core.errors import AlignmentError
from disent_core.evaluation.tasks.parallel import same_order

TEN = pa.chunked_array([[f"test-{number}" for number in range(10)]])


def intents(*others, missing=()):
    names = [None if row in missing else "x" if row in others else "play" for row in range(10)]
    return pa.chunked_array([pa.array(names, pa.string())])


def test_languages_with_other_intents_above_the_share_are_refused_with_the_share_an_example_and_a_remedy():
    assert pytest.approx(0.2) == MOST_OTHER_INTENTS
    check_intents(TEN, intents(), intents(3, 7), "toy en-lt test")
    with pytest.raises(AlignmentError, match=r"toy en-lt test: 3 of 10 .*30%.* e.g. 'test-3': 'play' and 'x'.*leave"):
        check_intents(TEN, intents(), intents(3, 7, 8), "toy en-lt test")


def test_rows_without_intent_are_not_compared():
    check_intents(TEN, intents(missing=range(10)), intents(3, 7, 8), "toy")
    with pytest.raises(AlignmentError, match="3 of 5 rows"):
        check_intents(TEN, intents(missing=range(5)), intents(6, 7, 8), "toy")


def test_texts_of_a_task_are_compared_by_their_joined_rows():
    def table(ids, names):
        return pa.table({"utterance_id": TEN.take(ids), "intent": names.take(ids)})

    right, wrong = table([9, 5, 1], intents()), table([5, 9, 2], intents(5))
    with pytest.raises(AlignmentError, match="toy: 1 of 2 rows"):
        same_order([right, wrong], "toy", "some")
