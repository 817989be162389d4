"""Rows of frozen embeddings: banks equal plain concatenation, keys lead to the right rows, heads to files."""

import json
import logging
import re
import shutil
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from synthetic import DIM, random_rows, state_table, vector_table, world

from disent_core import methods
from disent_core.embeddings.arrays import StateTable, VectorTable
from disent_core.errors import TableError, TrainingError
from disent_core.methods import dream, fmda, infonce_head, untrained
from disent_core.methods.families.frozen import FrozenHeadTrainer
from disent_core.methods.spec import HeadFiles, HeadSpec, describe_head
from disent_core.methods.trainer import train_head, trainer
from disent_core.storage.tables import rows_table
from disent_core.text import text_keys
from disent_core.training.build_data import training_data
from disent_core.training.data import (
    StateBank,
    VectorBank,
    embedded,
    grouped_states,
    state_bank,
    text_features,
    vector_bank,
)
from disent_core.training.epoch import Fit
from disent_core.training.needs import SIDES
from disent_core.training.stacked import best_parameters

part_sizes = st.lists(st.integers(0, 5), min_size=1, max_size=4).filter(any)
dtypes = st.sampled_from([torch.float16, torch.float32])


@given(part_sizes, dtypes, st.data())
def test_taking_rows_of_a_bank_equals_indexing_its_parts_put_together(sizes, dtype, data):
    parts = [random_rows(size, 3, seed=seed).to(dtype) for seed, size in enumerate(sizes)]
    rows = torch.tensor(data.draw(st.lists(st.integers(0, sum(sizes) - 1), max_size=12)), dtype=torch.long)
    taken = VectorBank(parts).take(rows)
    assert taken.dtype == torch.float32
    assert torch.equal(taken, torch.cat(parts).float()[rows])


@given(part_sizes.filter(lambda sizes: sum(sizes) > 0), dtypes, st.data())
def test_taking_states_equals_slicing_each_text(text_counts, dtype, data):
    lengths = [
        torch.tensor(data.draw(st.lists(st.integers(1, 5), min_size=count, max_size=count)), dtype=torch.long)
        for count in text_counts
    ]
    parts = [random_rows(int(text_lengths.sum()), 2, seed=seed).to(dtype) for seed, text_lengths in enumerate(lengths)]
    length, values = torch.cat(lengths), torch.cat(parts)
    begin = length.cumsum(0) - length
    bank = StateBank(VectorBank(parts), begin, length)
    rows = data.draw(st.lists(st.integers(0, len(length) - 1), min_size=1, max_size=9))
    states, mask = bank.take(torch.tensor(rows))
    assert states.dtype == torch.float32
    assert states.shape[1] == max(int(length[row]) for row in rows)
    for text, real, row in zip(states, mask, rows, strict=True):
        assert torch.equal(text[real], values[begin[row] : begin[row] + length[row]].float())
        assert real.tolist() == sorted(real.tolist(), reverse=True)


def test_rows_of_a_bank_are_those_of_the_keys_in_whatever_order_tables_are_stored():
    sorted_tables = [(vector_table(texts), state_table(texts)) for texts in ("abcd", "efg")]
    (vectors, states), unchanged = sorted_tables
    tables = [(restored(vectors), restored_states(states)), unchanged]
    rows = torch.tensor([5, 0, 6, 3, 3, 4, 1, 2])
    for bank_of, side in ((vector_bank, 0), (state_bank, 1)):
        ours, theirs = (bank_of([table[side] for table in some]).take(rows) for some in (tables, sorted_tables))
        assert all(map(torch.equal, *((tensor if side else [tensor]) for tensor in (ours, theirs))))


def restored(table: VectorTable) -> VectorTable:
    order = np.arange(len(table.keys))[::-1].copy()
    return replace(table, matrix=table.matrix[order], order=order)


def restored_states(table: StateTable) -> StateTable:
    order = np.arange(len(table.keys))[::-1].copy()
    texts = np.split(table.values, table.offsets[1:-1])[::-1]
    return replace(table, values=np.concatenate(texts), offsets=np.cumsum([0, *map(len, texts)]), order=order)


@given(st.lists(st.integers(1, 7), min_size=1, max_size=8), st.integers(1, 2), st.data())
def test_grouped_states_restore_the_states_of_each_text(lengths, seeds, data):
    length = torch.tensor(lengths)
    values = random_rows(sum(lengths), 2, seed=0).float()
    begin = length.cumsum(0) - length
    count = data.draw(st.integers(1, 9))
    rows = torch.tensor(
        [data.draw(st.lists(st.integers(0, len(lengths) - 1), min_size=count, max_size=count)) for _ in range(seeds)]
    )
    batch = grouped_states(StateBank(VectorBank([values]), begin, length), rows)
    for seed in range(seeds):
        grouped = []
        for group in range(sum("states_" in name for name in batch)):
            pairs = zip(batch[f"states_{group}"][seed], batch[f"mask_{group}"][seed], strict=True)
            grouped += [text[real] for text, real in pairs]
        assert [len(text) for text in grouped] == sorted(len(text) for text in grouped)
        assert torch.equal(batch["order"][seed][batch["place"][seed]], torch.arange(count))
        for row, place in zip(rows[seed], batch["place"][seed], strict=True):
            assert torch.equal(grouped[place], values[begin[row] : begin[row] + length[row]])


def expected_vectors(toy_world, pairs, column):
    side = column.split("_")[0]
    expected = []
    for row in pairs:
        key, table = row[column], toy_world.vectors[row[f"{side}_language"]]
        expected.append(None if key is None else table.matrix[table.keys.tolist().index(key.encode())])
    return expected


def test_keys_lead_to_their_rows_in_mixtures_that_share_a_language():
    toy_world = world("de-en", "en-es", "de-es")
    data = toy_world.data
    assert data.languages == tuple(toy_world.vectors)
    assert set(data.splits) == {"train", "dev"}
    for split in ("train", "dev"):
        rows = [row for table in toy_world.aligned for row in table.to_pylist() if row["split"] == split]
        part = data.splits[split]
        for side in SIDES:
            assert [data.languages[i] for i in part.language[side]] == [row[f"{side}_language"] for row in rows]
            for what, addressed in (("", part.text), ("template_", part.template), ("residual_", part.residual)):
                expected = expected_vectors(toy_world, rows, f"{side}_{what}key")
                for row, vector in zip(addressed[side].tolist(), expected, strict=True):
                    assert (row == -1) == (vector is None)
                    assert vector is None or np.array_equal(data.vectors.take(torch.tensor([row]))[0], vector)


def without_targets(table, rows):
    """As those rows of a corpus of sentence pairs are."""
    changed = table.to_pylist()
    for row in rows:
        changed[row] |= {f"{side}_{what}_key": None for side in SIDES for what in ("template", "residual")}
    return rows_table(changed, "aligned_pairs")


def test_pairs_without_masked_texts_train_only_methods_without_that_need():
    toy_world = world("en-de")
    table = without_targets(toy_world.aligned[0], [0, 1])
    assert table["split"][:2].to_pylist() == ["train", "train"]
    every = len(toy_world.data.splits["train"])
    assert len(training_data([table], toy_world.vectors, masked=False).splits["train"]) == every
    train = training_data([table], toy_world.vectors).splits["train"]
    assert len(train) == every - 2
    assert all((train.template[side] >= 0).all() for side in SIDES)
    table = without_targets(toy_world.aligned[0], range(len(toy_world.aligned[0])))
    with pytest.raises(TrainingError, match=r"none of .* has masked texts.*utterances with slots"):
        training_data([table], toy_world.vectors)


def test_states_are_looked_up_by_text():
    toy_world = world("en-de", "en-es")
    data = toy_world.data
    for label, language in enumerate(data.languages):
        vectors, states = toy_world.vectors[language], toy_world.states[language]
        start = int(data.vectors.starts[label])
        for row in range(len(vectors.keys)):
            place = states.keys.tolist().index(vectors.keys[row])
            expected = states.values[states.offsets[place] : states.offsets[place + 1]].astype(np.float32)
            values, mask = data.states.take(data.state_rows[start + row].unsqueeze(0))
            assert np.array_equal(values[0][mask[0]], expected)


def texts_of_rows(toy_world, rows):
    keys = np.concatenate([table.keys for table in toy_world.vectors.values()])
    return {keys[row].decode() for row in rows}


@pytest.mark.parametrize(("pool", "only_negatives"), [("sentences", False), ("negatives", True)])
def test_pools_have_each_training_text_of_the_language_once(pool, only_negatives):
    toy_world = world("en-de", "en-es")
    for label, language in enumerate(toy_world.data.languages):
        rows = getattr(toy_world.data, pool)[label].tolist()
        expected = {
            row[f"{side}_key"]
            for table in toy_world.aligned
            for row in table.to_pylist()
            for side in SIDES
            if row["split"] == "train"
            and row[f"{side}_language"] == language
            and (row[f"{side}_is_negative"] or not only_negatives)
        }
        assert len(rows) == len(set(rows))
        assert texts_of_rows(toy_world, rows) == expected


def test_training_without_pairs_is_an_error():
    with pytest.raises(TrainingError, match=r"no training pair of en\+de"):
        world(train=0).data.dim  # noqa: B018


@pytest.mark.parametrize("reads_texts", [False, True])
def test_pair_methods_refuse_a_single_language(reads_texts):
    toy_world = world("en-de")
    none, vectors = [toy_world.aligned[0].slice(0, 0)], {"en": toy_world.vectors["en"]}
    texts = toy_world.utterances[:1] if reads_texts else None
    with pytest.raises(TrainingError, match="en is one language, and the method trains on pairs of two"):
        infonce_head.pair_texts(training_data(none, vectors, masked=False, utterances=texts))


def without_text(table, key):
    keep = table.keys != key.encode()
    return replace(table, keys=table.keys[keep], matrix=table.matrix[keep])


def some_states(table, keep):
    lengths = np.diff(table.offsets)
    values, offsets = table.values[np.repeat(keep, lengths)], np.concatenate([[0], np.cumsum(lengths[keep])])
    return replace(table, keys=table.keys[keep], values=values, offsets=offsets)


def test_a_text_without_vector_is_an_error():
    toy_world = world()
    key = toy_world.aligned[0]["source_key"][0].as_py()
    with pytest.raises(TableError, match=f"1 of 18 texts are missing, e.g. {key}"):
        training_data(toy_world.aligned, toy_world.vectors | {"en": without_text(toy_world.vectors["en"], key)})


def test_masked_texts_need_no_vectors_where_no_method_reads_them():
    toy_world = world()
    vectors = toy_world.vectors
    for language, side in (("en", "source"), ("de", "target")):
        masked, plain = (set(toy_world.aligned[0][f"{side}_{name}"].to_pylist()) for name in ("template_key", "key"))
        for key in masked - plain:
            vectors = vectors | {language: without_text(vectors[language], key)}
    with pytest.raises(TableError):
        training_data(toy_world.aligned, vectors)
    data = training_data(toy_world.aligned, vectors, masked=False)
    assert all((rows == -1).all() for rows in (*data.splits["train"].template.values(),))
    assert all((rows == -1).all() for rows in (*data.splits["dev"].residual.values(),))


def test_a_text_without_token_states_is_an_error():
    toy_world = world()
    read = {row["source_key"] for row in toy_world.aligned[0].to_pylist() if row["split"] != "test"}
    table = toy_world.states["en"]
    lacking = some_states(table, table.keys != next(key for key in table.keys if key.decode() in read))
    with pytest.raises(TableError, match="token states of 1 of 36 texts are missing"):
        training_data(toy_world.aligned, toy_world.vectors, toy_world.states | {"en": lacking})


def test_token_states_of_masked_texts_are_not_needed():
    toy_world = world()
    states = {}
    for language, table in toy_world.states.items():
        plain = {key.encode() for key in text_keys(t for t in toy_world.texts[language] if "<mask>" not in t)}
        states[language] = some_states(table, np.array([key in plain for key in table.keys]))
    assert training_data(toy_world.aligned, toy_world.vectors, states).states is not None


def features(count=7):
    toy_world = world()
    keys = text_keys(sorted(toy_world.texts["en"])[:count])
    return toy_world, keys, text_features(keys, (toy_world.vectors["en"], toy_world.states["en"]))


def test_blocked_embedding_gives_every_text_its_own_result(monkeypatch):
    toy_world, keys, inputs = features()
    monkeypatch.setattr("disent_core.training.data._TOKENS", {"cpu": 15})

    def embed(batch, places):
        (states, mask), shapes[len(shapes)] = (batch["states_0"], batch["mask_0"]), tuple(batch["states_0"].shape[:2])
        return {"vectors": batch["vectors"], "first": states[:, 0], "tokens": mask.sum(1, keepdim=True)}

    shapes = {}
    rows = embedded(embed, inputs, "cpu")
    assert {texts for texts, width in shapes.values() if texts != 15 // width} == set()
    assert np.array_equal(rows["vectors"], toy_world.vectors["en"].matrix[toy_world.vectors["en"].rows(keys)])
    states = toy_world.states["en"]
    begin, end = (states.offsets[states.rows(keys) + step] for step in (0, 1))
    assert np.array_equal(rows["tokens"][:, 0], end - begin)
    assert np.array_equal(rows["first"], states.values[begin].astype(np.float32))


def test_features_from_several_tables_equal_those_from_one():
    toy_world = world()
    table, states = toy_world.vectors["en"], toy_world.states["en"]
    half = len(table.keys) // 2
    first = replace(table, keys=table.keys[:half], matrix=table.matrix[:half])
    of_first = some_states(states, np.arange(len(states.keys)) < half)
    keys = [bytes(key).decode() for key in [*table.keys[::-1], *table.keys[:3]]]
    whole, parted = text_features(keys, (table, states)), text_features(keys, (first, of_first), (table, states))
    assert {*(parted.rows < half).tolist()} == {True, False}
    assert torch.equal(parted.vectors.stored(parted.rows), whole.vectors.stored(whole.rows))
    of_parts, expected = (inputs.states.take(inputs.state_rows, as_stored=True) for inputs in (parted, whole))
    assert all(torch.equal(actual, wanted) for actual, wanted in zip(of_parts, expected, strict=True))
    assert parted.rows.tolist()[-3:] == [0, 1, 2]
    with pytest.raises(TableError, match="1 of 1 texts are missing"):
        text_features(text_keys(["never seen"]), (world().vectors["en"], None))


def test_raw_embeds_with_the_encoders_own_vectors(tmp_path):
    toy_world, keys, inputs = features()
    embedded = trainer(untrained.RAW).load(tmp_path, untrained.RawConfig(), "cpu").embed(inputs, None)
    assert np.array_equal(embedded["sentence"], toy_world.vectors["en"].matrix[toy_world.vectors["en"].rows(keys)])


SETTINGS = {
    "dream": dream.DreamConfig(learning_rate=0.01, batch_size=6, max_epochs=2),
    "fmda": fmda.FmdaConfig(learning_rate=0.01, batch_size=6, max_epochs=2),
}


def head_run(name="dream", **changes):
    spec = {"name": f"my_{name}", "method": methods.method(name), "settings": SETTINGS[name], "encoder": "toy"}
    of_data = {"trained_on": "en-de", "data_fingerprint": "texts", "encoder_fingerprint": "encoder"}
    return HeadSpec(**(spec | of_data | {"seeds": (0, 3)} | changes))


@dataclass
class Place:
    files: HeadFiles
    opened: int = 0

    def train(self, run, other_world=None):
        def open_data():
            self.opened += 1
            return (other_world or world()).data

        return train_head(run, self.files, open_data, device="cpu")


def place_in(folder):
    return Place(HeadFiles(folder / "weights.safetensors", folder / "curve.parquet", folder / "checkpoint"))


@pytest.fixture
def place(tmp_path):
    return place_in(tmp_path)


@pytest.fixture
def other(tmp_path):
    return place_in(tmp_path / "other")


@pytest.mark.parametrize("name", SETTINGS)
def test_a_trained_head_gives_a_row_per_text_for_each_of_its_embeddings_and_seeds(place, name):
    run = head_run(name)
    report = place.train(run)
    assert (report.epochs, report.steps) == (2, 4)
    _, keys, inputs = features()
    trained = trainer(run.method).load(place.files.weights, run.settings, "cpu")
    for seed in run.seeds:
        embedded = trained.embed(inputs, seed)
        assert tuple(embedded) == run.method.embeddings
        assert all(matrix.shape == (len(keys), DIM) and matrix.dtype == np.float32 for matrix in embedded.values())
    assert not np.allclose(trained.embed(inputs, 0)["meaning"], trained.embed(inputs, 3)["meaning"])
    with pytest.raises(ValueError, match="one of its seeds, not None"):
        trained.embed(inputs, None)


def test_training_logs_head_loss_and_rate(place, monkeypatch, caplog):
    monkeypatch.setattr("disent_core.progress.SECONDS", 0.0)
    with caplog.at_level(logging.INFO, "disent_core.methods.trainer"):
        place.train(run := head_run())
    assert len(caplog.messages) == 2
    for number, message in enumerate(caplog.messages, start=1):
        assert message.startswith(f"{run.title}: {number} of at most 2 epochs, loss [")
        assert re.search(r"seeds still training \[0, 3\], [0-9.]+ a (second|minute)$", message)


def test_repeated_training_takes_no_step_and_opens_no_data(place):
    first, second = place.train(head_run()), place.train(head_run())
    assert (second.epochs, second.steps, second.content, place.opened) == (0, 0, first.content, 1)
    assert second.curve == first.curve


CHANGES = [
    {"settings": replace(SETTINGS["dream"], learning_rate=0.02, warm_start=True)},
    {"seeds": (0,)},
    {"encoder_fingerprint": "other encoder"},
    {"method": replace(dream.METHOD, code_version="2")},
]
"""Of all that weights depend on but the texts."""


def test_damaged_or_missing_weights_or_curves_are_made_again_to_the_same_content(place):
    first = place.train(head_run())
    for path in (place.files.weights, place.files.curve):
        for damage in (lambda: path.write_bytes(path.read_bytes()[:-40]), path.unlink):  # noqa: B023
            damage()
            again = place.train(head_run())
            assert (again.steps, again.content) == (first.steps, first.content), path


def cut_off(place, run, data):
    """Train, and be killed before weights are saved."""

    def dies(*_):
        raise KeyboardInterrupt

    trainer = type("Saving", (FrozenHeadTrainer,), {"save": dies})
    method = replace(run.method)
    object.__setattr__(method, "trainer", trainer)
    with pytest.raises(KeyboardInterrupt):
        place.train(replace(run, method=method), data)
    assert place.files.checkpoint.is_file()


def test_an_interrupted_run_resumes_only_with_the_same_texts(place, other):
    run, new = head_run(seeds=(0,)), world(seed=1)
    cut_off(place, run, world(seed=0))
    changed = replace(run, data_fingerprint="other texts")
    assert place.train(changed, new).content == other.train(changed, new).content


def warm(**changes):
    return head_run(settings=replace(SETTINGS["dream"], warm_start=True), **changes)


@pytest.mark.parametrize("is_warm", [True, False], ids=["warm", "cold"])
def test_a_warm_start_begins_with_the_existing_weights(place, tmp_path, is_warm):
    run, edited = warm() if is_warm else head_run(), world(seed=1)
    first = place.train(run)
    initial = tmp_path / "initial"
    shutil.copy(place.files.weights, initial)
    second = place.train(replace(run, data_fingerprint="edited"), edited)
    assert (first.initial_weights, second.initial_weights) == (None, first.content if is_warm else None)
    checkpoint = tmp_path / "expected"
    fit = Fit(run.seeds, checkpoint, "expected", initial=initial if is_warm else None)
    list(trainer(run.method).fit(edited.data, run.settings, fit))
    expected = best_parameters(checkpoint)
    heads = trainer(run.method).load(place.files.weights, run.settings, "cpu").heads
    assert heads.keys() == expected.keys()
    for seed, head in heads.items():
        assert all(torch.equal(value, expected[seed][key]) for key, value in head.state_dict().items())


def test_a_warm_start_also_uses_cold_trained_weights_and_is_not_repeated(place):
    cold = place.train(head_run())
    assert place.train(warm(data_fingerprint="edited")).initial_weights == cold.content
    again = place.train(warm(data_fingerprint="edited"))
    assert (again.steps, again.initial_weights) == (0, cold.content)


@pytest.mark.parametrize("changes", CHANGES, ids=lambda changes: next(iter(changes)))
def test_other_changes_than_of_texts_retrain_from_the_beginning(place, other, changes):
    place.train(warm())
    after = replace(warm(data_fingerprint="edited"), **changes)
    report = place.train(after)
    assert report.initial_weights is None
    assert report.steps > 0 == place.train(after).steps
    assert report.content == other.train(after).content


def test_a_warm_start_ignores_damaged_weights(place):
    place.train(warm())
    place.files.weights.write_bytes(b"x" * 99)
    assert place.train(warm(data_fingerprint="edited")).initial_weights is None


def test_an_interrupted_warm_start_ends_with_the_same_weights(place, other):
    run, after = warm(), warm(data_fingerprint="edited")
    for folder in (place, other):
        folder.train(run)
    whole = other.train(after, world(seed=1))
    cut_off(place, after, world(seed=1))
    resumed = place.train(after, world(seed=1))
    assert (resumed.steps, resumed.content) == (0, whole.content)


def test_the_weights_file_describes_its_head_and_absent_weights_are_none(place, tmp_path):
    run = head_run()
    report = place.train(run)
    description, content = describe_head(place.files.weights)
    assert content == report.content
    assert description["method"] == "dream"
    assert (description["name"], description["trained_on"], description["inputs"]) == ("my_dream", "en-de", run.inputs)
    assert (description["seeds"], description["languages"], description["dim"]) == ([0, 3], ["en", "de"], DIM)
    record = json.loads(place.files.weights.with_suffix(".json").read_text())
    assert record.items() <= description.items()
    assert describe_head(tmp_path / "nothing") is None
