"""The largest BLEU and the pool of negatives against a double loop over sacrebleu, updates and the published corpus."""

import json
import logging
import tarfile
import tracemalloc
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from places import real_corpus, why_absent
from sacrebleu.metrics import BLEU
from table_loops import loop_previous_witnesses
from worlds import utterance

from disent_core.negatives import nearest
from disent_core.negatives.config import BleuConfig
from disent_core.negatives.nearest import BLEU_STATE_SCHEMA, _previous_witnesses, bleu_state, max_bleu, pool
from disent_core.shards.backend import ShardBackend, sharded
from disent_core.storage.tables import SCHEMAS, rows_table

MASSIVE = real_corpus("massive/amazon-massive-dataset-1.1.tar.gz")
LOCALES = ("en-US", "de-DE", "ja-JP")
UNSMOOTHED = BleuConfig()

logging.getLogger("sacrebleu").setLevel(logging.ERROR)

texts = st.lists(st.sampled_from("abcd"), max_size=9)
corpora = st.lists(texts, max_size=12)
configs = st.builds(
    lambda smoothing, value, **others: BleuConfig(
        smoothing=smoothing, smoothing_value=value if smoothing in ("floor", "add-k") else None, **others
    ),
    smoothing=st.sampled_from(["none", "floor", "add-k", "exp"]),
    value=st.sampled_from([None, 0.01, 0.5, 1.0]),
    order=st.integers(1, 5),
    effective_order=st.booleans(),
    direction=st.sampled_from(["hypothesis", "reference", "max"]),
    block_pairs=st.sampled_from([1, 7, 1000]),
)


def pair_bleu(utterance, other, config):
    peer = BLEU(
        tokenize="none",
        smooth_method=config.smoothing,
        smooth_value=config.smoothing_value,
        max_ngram_order=config.order,
        effective_order=config.effective_order,
    )
    left, right = " ".join(utterance), " ".join(other)
    directions = {"hypothesis": [(left, right)], "reference": [(right, left)], "max": [(left, right), (right, left)]}
    return max(peer.sentence_score(h, [r]).score / 100 for h, r in directions[config.direction])


def double_loop(tokens, config):
    for i, words in enumerate(tokens):
        scores = {j: pair_bleu(words, other, config) for j, other in enumerate(tokens) if j != i}
        top = max(scores.values(), default=0.0)
        yield top, {j for j, score in scores.items() if abs(score - top) < 1e-9} if top > 0 else {-1}


def utterance_table(rows, split="train", language="en"):
    return rows_table([utterance(language, name, text, split=split) for name, text in rows], "utterances")


@pytest.fixture(scope="session")
def massive():
    if not MASSIVE.is_file():
        pytest.skip(why_absent(MASSIVE))
    tables = {}
    with tarfile.open(MASSIVE) as archive:
        for locale in LOCALES:
            lines = archive.extractfile(f"1.1/data/{locale}.jsonl").read().decode().splitlines()
            rows = [row for row in map(json.loads, lines) if row["partition"] == "train"]
            tables[locale] = utterance_table([(row["id"], row["utt"]) for row in rows], language=locale[:2])
    return tables


@settings(max_examples=30)
@given(corpora, configs)
def test_max_bleu_equals_a_double_loop_over_sacrebleu(tokens, config):
    scores, nearest = max_bleu(tokens, config)
    for score, witness, (expected, reached) in zip(scores, nearest, double_loop(tokens, config), strict=True):
        assert score == pytest.approx(expected, abs=1e-9)
        assert witness in reached


@pytest.mark.parametrize(
    ("hypothesis", "reference", "expected"),
    [
        ("a", "a", (1 * 0.1**3) ** 0.25),  # 1/1, then three orders of 0.1/1
        ("a b c", "a b d", (2 / 3 * 1 / 2 * 0.1 / 1 * 0.1 / 1) ** 0.25),
        ("a b c d e", "a b c d f", (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.25),
        ("a", "b", 0),
    ],
)
def test_nltk_floor_counts_an_overlong_order_as_a_miss(hypothesis, reference, expected):
    scores, _ = max_bleu([hypothesis.split(), reference.split()], BleuConfig(smoothing="nltk-floor"))
    np.testing.assert_allclose(scores, expected, atol=1e-12)


def test_the_witness_is_the_lowest_index_of_several():
    _, nearest = max_bleu([list("abcd"), list("xabcd"), list("abcdx"), list("yabcd"), []], UNSMOOTHED)
    assert nearest.tolist() == [1, 0, 0, 0, -1]


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(corpora, configs, st.integers(1, 7))
def test_blocks_and_shards_of_any_size_change_neither_scores_nor_witnesses(monkeypatch, tokens, config, size):
    expected = max_bleu(tokens, replace(config, block_pairs=10**6))
    monkeypatch.setattr(nearest, "ROWS_OF_SHARD", size)
    with sharded(ShardBackend("processes", 1)):
        actual = max_bleu(tokens, config)
    assert [part.tolist() for part in actual] == [part.tolist() for part in expected]


def test_an_update_in_shards_is_that_of_one_shard(monkeypatch):
    rows = [(f"{i:02}", f"{'abcdefg'[i % 7]} b c d e {i // 5}") for i in range(40)]
    previous = bleu_state(utterance_table(rows[:30]), UNSMOOTHED)
    expected = bleu_state(utterance_table(rows[3:]), UNSMOOTHED, previous)
    monkeypatch.setattr(nearest, "ROWS_OF_SHARD", 4)
    with sharded(ShardBackend("processes", 1)):
        assert bleu_state(utterance_table(rows[3:]), UNSMOOTHED, previous).equals(expected)


def test_memory_is_bounded_where_one_4_gram_is_in_every_text():
    words = np.random.default_rng(0).integers(0, 5000, (400, 3)).astype(str).tolist()
    tokens = [[*"abcd", *end] for end in words]
    config = replace(UNSMOOTHED, block_pairs=1 << 11)
    max_bleu(tokens[:10], config)  # whatever is imported or compiled on the first call
    tracemalloc.start()
    max_bleu(tokens, config)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    bound = 60 * config.order * sum(map(len, tokens)) + 200 * (config.block_pairs + len(tokens))
    assert peak < bound < 1.2e6 < 8 * len(tokens) ** 2


changing = st.lists(st.tuples(st.one_of(st.none(), texts), st.one_of(st.none(), texts, st.just("same"))), max_size=12)


@settings(max_examples=30)
@given(changing, configs)
def test_an_updated_state_is_that_of_a_full_computation(changes, config):
    before = {f"{i:02}": " ".join(old) for i, (old, _) in enumerate(changes) if old is not None}
    after = {
        f"{i:02}": " ".join(old if new == "same" else new)
        for i, (old, new) in enumerate(changes)
        if new is not None and (new != "same" or old is not None)
    }
    previous = bleu_state(utterance_table(before.items()), config)
    updated = bleu_state(utterance_table(after.items()), config, previous)
    assert updated.equals(bleu_state(utterance_table(after.items()), config))


IDS, KEYS = st.sampled_from("abcde"), st.sampled_from("xy")


@given(st.dictionaries(IDS, KEYS), st.dictionaries(IDS, st.tuples(KEYS, st.none() | IDS)))
def test_previous_witnesses_equal_those_found_by_loops(now, before):
    train = pa.table({"utterance_id": pa.array(now, pa.string()), "text_key": pa.array(now.values(), pa.string())})
    keys, witnesses = ([row[n] for row in before.values()] for n in (0, 1))
    columns = {"utterance_id": list(before), "text_key": keys, "nearest_utterance_id": witnesses}
    previous = pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})
    known, nearest = _previous_witnesses(train, previous)
    assert (known.tolist(), nearest.tolist()) == loop_previous_witnesses(now, before)


def test_an_update_compares_only_new_texts_and_those_whose_witness_is_gone(caplog):
    rows = [("1", "a b c d"), ("2", "a b c d e"), ("3", "f g h i j"), ("4", "f g h i"), ("5", "k")]
    previous = bleu_state(utterance_table(rows), UNSMOOTHED)
    with caplog.at_level(logging.INFO, "disent_core.negatives"):
        bleu_state(utterance_table([*rows[1:], ("6", "l m n o")]), UNSMOOTHED, previous)
    assert "1 utterances new or changed, 1 gone, 1 witnesses gone" in caplog.messages
    assert "computing BLEU of 2 of 5 distinct texts against all others" in caplog.messages


def test_an_update_rejects_out_of_range_witnesses():
    known = np.ones(1, bool)
    with pytest.raises(ValueError, match="witnesses 3 to 3 are out of range for 1 utterances"):
        max_bleu([["a"]], UNSMOOTHED, known, np.array([3]))
    with pytest.raises(ValueError, match="2 utterances, 1 known"):
        max_bleu([["a"], ["b"]], UNSMOOTHED, known, np.array([-1]))


ROWS = [("b", "wake me up at five"), ("a", "wake me up at six"), ("d", "quiet"), ("c", "play jazz for me now")]


def test_the_pool_has_the_train_utterances_below_the_bleu_threshold():
    in_test = utterance_table([("e", "quiet"), ("f", "silence")], split="test")
    result = pool(bleu_state(pa.concat_tables([utterance_table(ROWS), in_test]), UNSMOOTHED), UNSMOOTHED)
    assert result.schema == SCHEMAS["negative_pool"]
    assert result["utterance_id"].to_pylist() == ["c", "d"]
    assert result["nearest_utterance_id"].to_pylist() == [None, None]
    result = bleu_state(utterance_table(ROWS), UNSMOOTHED)
    assert result.schema == BLEU_STATE_SCHEMA
    assert result["nearest_utterance_id"].to_pylist() == ["b", "a", None, None]
    assert result["max_bleu"].to_pylist() == pytest.approx([(4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.25] * 2 + [0, 0])


def test_tables_do_not_depend_on_the_order_of_utterances():
    for rows in (ROWS[::-1], ROWS[2:] + ROWS[:2]):
        assert bleu_state(utterance_table(rows), UNSMOOTHED).equals(bleu_state(utterance_table(ROWS), UNSMOOTHED))


def test_tables_of_no_utterance_are_empty():
    empty = utterance_table([])
    state = bleu_state(empty, UNSMOOTHED)
    assert state.equals(BLEU_STATE_SCHEMA.empty_table())
    assert bleu_state(empty, UNSMOOTHED, state).num_rows == pool(state, UNSMOOTHED).num_rows == 0


@pytest.mark.parametrize(
    ("second", "message"),
    [(utterance_table(ROWS[2:], language="de"), "one language"), (utterance_table(ROWS[:1]), "1 of 3 utterance ids")],
)
def test_utterances_of_two_languages_and_repeated_ids_are_rejected(second, message):
    with pytest.raises(ValueError, match=message):
        bleu_state(pa.concat_tables([utterance_table(ROWS[:2]), second]), UNSMOOTHED)


def test_an_invalid_bleu_config_is_refused_with_the_reason():
    with pytest.raises(ValueError, match="'none' takes no smoothing_value"):
        BleuConfig(smoothing_value=0.1)
    with pytest.raises(ValueError, match="out of range"):
        BleuConfig(smoothing="floor", smoothing_value=1.1)


@pytest.mark.parametrize(
    ("settings_", "language", "expected"),
    [
        ({}, "de", ["ab", "c"]),
        ({}, "ja-JP", ["a", "b", "c"]),
        ({"tokenize": "word"}, "ja", ["ab", "c"]),
        ({"tokenize": "char"}, "de", ["a", "b", "c"]),
        ({"lowercase": False}, "de", ["Ab", "C"]),
    ],
)
def test_tokenisation_follows_the_language_unless_configured(settings_, language, expected):
    assert BleuConfig(**settings_).tokens("Ab\u3000 C", language) == expected


@pytest.mark.parametrize(
    ("config", "sizes"),
    [
        (UNSMOOTHED, (6189, 7555, 486)),
        (BleuConfig(effective_order=True), (4907, 6462, 355)),
        (BleuConfig(smoothing="exp", effective_order=True), (175, 330, 19)),
        (BleuConfig(smoothing="nltk-floor"), (1031, 1593, 124)),
    ],
    ids=["none", "none effective", "exp effective", "nltk-floor"],
)
def test_massive_pools_have_their_known_sizes(massive, config, sizes):
    assert tuple(pool(bleu_state(massive[locale], config), config).num_rows for locale in LOCALES) == sizes


def test_the_negatives_printed_in_the_paper_are_in_the_unsmoothed_pool(massive):
    for locale, text in (("en-US", "quiet"), ("de-DE", "zeit zu schlafen")):
        ids = massive[locale].filter(pc.equal(massive[locale]["text"], text))["utterance_id"].to_pylist()
        assert ids
        negatives = pool(bleu_state(massive[locale], UNSMOOTHED), UNSMOOTHED)
        assert set(ids) <= set(negatives["utterance_id"].to_pylist())
