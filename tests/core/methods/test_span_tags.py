"""From spans to tags."""

from hypothesis import given
from hypothesis import strategies as st

from disent_core.corpora.annotation import Slot, tagged_slots
from disent_core.methods.twosl_head import Prediction, decode

SPANS = st.lists(
    st.builds(
        lambda kind, start, size, probability: Prediction(kind, start, start + size, probability),
        st.sampled_from("xy"), st.integers(0, 5), st.integers(1, 3), st.floats(0, 1),
    ),
    max_size=8,
)  # fmt: skip


@given(SPANS)
def test_greedy_decoding_drops_only_spans_overlapping_a_more_probable_one(spans):
    written = tagged_slots(decode(8, spans, overlap="greedy"))
    kept = [span for span in spans if Slot(*span[:3]) in written]
    assert {Slot(*span[:3]) for span in kept} == set(written)
    for span in spans:
        assert span in kept or any(
            other.probability >= span.probability and other.start < span.end and span.start < other.end
            for other in kept
        )


def test_greedy_ties_keep_the_leftmost_span_and_shorter_spans_overwrite_longer():
    spans = [Prediction("y", 1, 3, 0.5), Prediction("x", 0, 2, 0.5)]
    assert decode(3, spans, overlap="greedy") == ["B-x", "I-x", "O"]
    spans = [Prediction("y", 1, 2, 0.1), Prediction("x", 0, 3, 0.2), Prediction("z", 0, 1, 0.9)]
    assert decode(4, spans, overlap="overwrite") == ["B-x", "B-y", "I-x", "O"]
