"""The student: what it is trained on, that it learns and resumes, and what it leaves."""

from itertools import count

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from made_encoders import are_equal, killed

from disent_core.encoders.checkpoint import load_model, load_tokeniser
from disent_core.encoders.kinds.distilled.aligned import make_aligned
from disent_core.encoders.kinds.distilled.pairs import Material, Translations
from disent_core.encoders.kinds.distilled.student import (
    StudentTask,
    _seen,
    held_out_texts,
    lessons_of,
    plan_pass,
    train_student,
)
from disent_core.encoders.kinds.huggingface import record_of
from disent_core.encoders.tokens import TextTokeniser
from disent_core.errors import EncoderError, TrainingError
from tests.core.tiny_teacher import PIVOTS, column, config, loaded, material, save_teacher, translated, translations
from tests.core.word_bert import encode

RECORD = {"made_from": "a" * 32}


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    folder = tmp_path_factory.mktemp("start")
    make_aligned(material().training, config(), save_teacher(folder / "teacher"), folder / "aligned", RECORD)
    return folder / "aligned"


@pytest.fixture(scope="module")
def taught(start):
    known = [*PIVOTS, "call dad."]
    vectors = encode(loaded(start.parent / "teacher"), known)[0]
    return lambda texts: vectors[np.array([known.index(text) for text in texts], dtype=np.int64)]


def tokenise(start):
    return TextTokeniser(load_tokeniser(start).backend_tokenizer, None, 32)


def train(start, taught, folder, of=None, **changed):
    return list(train_student(of or material(), taught, config(**changed), start, folder, RECORD, "cpu"))


def task_of(start, taught, of=None, **changed):
    lessons, settings = lessons_of(of or material(), taught, tokenise(start)), config(**changed)
    return StudentTask(load_model(start, pooling="mean"), lessons, {}, settings, "cpu")


def test_a_pass_has_every_foreign_text_once_and_a_share_of_pivots(start, taught):
    lessons = lessons_of(material(), taught, tokenise(start))
    rows = np.concatenate(plan_pass(lessons, config(pivot_share=0.5), 0))
    assert len(rows) == len(set(rows.tolist()))
    assert set(np.flatnonzero(~lessons.is_pivot)) <= set(rows.tolist())
    lengths = lessons.tokens.lengths[lessons.is_pivot]
    assert lessons.is_pivot[rows].sum() == sum(int(0.5 * (lengths == length).sum()) for length in set(lengths))


def test_a_batch_has_texts_of_one_length_and_corpus(start, taught):
    of = Material([*material().training, translations("de", PIVOTS[:9], "other")], [])
    lessons = lessons_of(of, taught, tokenise(start))
    batches = plan_pass(lessons, config(), 0)
    assert {len(set(zip(lessons.tokens.lengths[rows], lessons.corpus[rows], strict=True))) for rows in batches} == {1}
    assert all(lessons.starts[corpus] <= target < lessons.starts[corpus + 1]
               for corpus, target in zip(lessons.corpus, lessons.target, strict=True))  # fmt: skip


def test_passes_differ_and_have_equally_many_batches(start, taught):
    lessons = lessons_of(material(), taught, tokenise(start))
    first, again, second = (plan_pass(lessons, config(), number) for number in (0, 0, 1))
    assert len(first) == len(second)
    assert np.array_equal(np.concatenate(first), np.concatenate(again))
    assert not np.array_equal(np.concatenate(first), np.concatenate(second))


def test_final_punctuation_is_left_out_of_half_of_the_texts(start, taught):
    of = Material([translations("de")], [])
    lessons = lessons_of(of, taught, tokenise(start))
    is_shorter = lessons.tokens.lengths[lessons.is_pivot] < tokenise(start)(PIVOTS).lengths
    assert 0.2 < is_shorter.mean() < 0.8


def test_lessons_are_those_of_loops_over_dictionaries_whatever_the_size_of_blocks(start, taught, monkeypatch):
    doubled = [*PIVOTS[:5], *PIVOTS[2:7], "call dad.", PIVOTS[0]]
    of_bitext = [("de", doubled), ("xx", doubled[::-1]), ("de", PIVOTS[4:9])]
    other = translations("de", PIVOTS[:3], "other")
    first, *rest = (translations(*each) for each in of_bitext)
    ambiguous = Translations("bitext", "de", column(PIVOTS[8:11]), column(["ruf", "weck", "ruf"]))
    of = Material([first, other, *rest, ambiguous], [])
    whole = lessons_of(of, taught, tokenise(start))
    for module in ("storage.text_columns", "encoders.kinds.distilled.student"):
        monkeypatch.setattr(f"disent_core.{module}.BLOCK", 1)
    lessons = lessons_of(of, taught, tokenise(start))
    for name in ("ids", "hidden", "offsets", "truncated"):
        assert np.array_equal(getattr(lessons.tokens, name), getattr(whole.tokens, name))
    assert np.array_equal(lessons.teacher, whole.teacher)
    texts, targets, is_pivot, corpora, sentences = [], [], [], [], []
    for number, corpus in enumerate(("bitext", "other")):
        pairs = [pair for part in of.training if part.corpus == corpus for pair in part.pairs]
        row = {pivot: len(sentences) + place for place, pivot in enumerate(dict.fromkeys(pivot for pivot, _ in pairs))}
        foreign = list(dict.fromkeys((text, row[pivot]) for pivot, text in pairs))
        texts += [text for text, _ in (*foreign, *row.items())]
        targets += [target for _, target in (*foreign, *row.items())]
        is_pivot += [False] * len(foreign) + [True] * len(row)
        corpora += [number] * (len(foreign) + len(row))
        sentences += row
    assert (lessons.target.tolist(), lessons.is_pivot.tolist(), lessons.corpus.tolist()) == (targets, is_pivot, corpora)
    assert np.array_equal(lessons.tokens.ids, tokenise(start)([_seen(text) for text in texts]).ids)
    vectors = taught(sentences)
    assert np.array_equal(lessons.teacher, vectors / np.linalg.norm(vectors, axis=1, keepdims=True))
    assert lessons.starts == [0, len({*doubled, *PIVOTS[4:11]}), len(sentences)]


def test_a_held_out_sentence_counts_once_a_language(start):
    doubled = Material([], [translations("de", [*PIVOTS[:3], *PIVOTS[:3]]), translations("xx", PIVOTS[:2])])
    chosen = held_out_texts(doubled, 2)
    assert {language: len(pivots) for language, (pivots, _) in chosen.items()} == {"de": 2, "xx": 2}


@pytest.mark.parametrize("kind", ["softmax", "symmetric"])
def test_the_loss_is_that_of_loops(start, taught, kind):
    of = Material([translations("de", [PIVOTS[0]] * 2 + PIVOTS)], [])
    task = task_of(start, taught, of, loss=kind, temperature=0.1)
    batch = max(plan_pass(task.lessons, task.config, 0), key=len)
    with torch.random.fork_rng():
        torch.manual_seed(3)
        terms, examples = task.loss(batch)
        torch.manual_seed(3)
        bank = torch.randint(0, len(task.lessons.teacher), (task.config.bank,)).tolist()
    vectors = F.normalize(task.vectors(task.lessons.tokens, batch), dim=-1)
    targets = task.lessons.target[batch].tolist()

    def picked(gold, others):
        return -gold + torch.logsumexp(torch.stack([gold, *others]), dim=0)

    values = []
    for i, target in enumerate(targets):

        def score(row, at, task=task, vectors=vectors):
            return vectors[row] @ task.teacher[at] / 0.1

        others = [other for j, other in enumerate(targets) if j != i and other != target]
        value = picked(score(i, target), [score(i, at) for at in [*others, *(at for at in bank if at != target)]])
        if kind == "symmetric":
            back = [score(j, target) for j, other in enumerate(targets) if j != i and other != target]
            value = (value + picked(score(i, target), back)) / 2
        values.append(value)
    assert (examples, float(terms["total"].detach())) == (
        len(batch),
        pytest.approx(float(torch.stack(values).mean().detach()), rel=1e-4),
    )


def test_training_lowers_the_dev_loss_and_keeps_the_best_checkpoint(start, taught, tmp_path):
    before = task_of(start, taught, temperature=0.2)
    before.held_out = {
        language: tuple(map(tokenise(start), sides)) for language, sides in held_out_texts(material(), 9).items()
    }
    reports = train(start, taught, tmp_path / "multi", max_steps=60, learning_rate=1e-3, row_learning_rate=1e-2,
                    validate_steps=20, temperature=0.2)  # fmt: skip
    losses = [report.terms["dev"]["total"] for report in reports]
    assert min(losses) < 0.8 * before.validate()["total"]
    record = record_of(tmp_path / "multi")
    assert record["held_out"]["total"] == pytest.approx(min(losses), abs=1e-6)
    assert record["steps"] == 20 * (int(np.argmin(losses)) + 1)


def test_training_stops_when_held_out_pairs_get_no_better(start, taught, tmp_path):
    reports = train(start, taught, tmp_path / "multi", max_steps=500, learning_rate=1e-9, row_learning_rate=1e-9,
                    patience=2, validate_steps=1)  # fmt: skip
    assert reports[-1].steps < 500


def test_a_stopped_run_ends_in_the_weights_of_a_run_without_a_stop_and_another_seed_in_others(
    start, taught, tmp_path, monkeypatch
):
    with killed(StudentTask, after=7):
        train(start, taught, tmp_path / "stopped", checkpoint_seconds=0.0)
    assert not (tmp_path / "stopped").exists()
    counted = count()
    loss = StudentTask.loss
    monkeypatch.setattr(StudentTask, "loss", lambda self, batch: next(counted) * 0 or loss(self, batch))
    train(start, taught, tmp_path / "stopped")
    assert next(counted) == 3
    train(start, taught, tmp_path / "whole")
    assert are_equal(tmp_path / "stopped", tmp_path / "whole")
    assert {path.name for path in tmp_path.iterdir()} == {"stopped", "whole"}
    train(start, taught, tmp_path / "other", seed=1)
    assert not are_equal(tmp_path / "other", tmp_path / "whole")


def test_the_saved_encoder_gives_the_vectors_of_the_trained_one(start, taught, tmp_path, monkeypatch):
    texts, trained = [translated(text, "xx") for text in PIVOTS], []
    validate = StudentTask.validate

    def keeps(self):
        trained.append((self, validate(self)))
        return trained[-1][1]

    monkeypatch.setattr(StudentTask, "validate", keeps)
    train(start, taught, tmp_path / "multi")
    with torch.no_grad():
        expected = trained[-1][0]._all_vectors(tokenise(start)(texts)).numpy()
    np.testing.assert_allclose(encode(loaded(tmp_path / "multi"), texts)[0], expected, atol=1e-5)


def test_without_training_the_student_is_the_aligned_encoder(start, taught, tmp_path):
    assert train(start, taught, tmp_path / "multi", train=False) == []
    assert are_equal(start, tmp_path / "multi")


def test_dropout_is_off_in_training(start, taught):
    task = task_of(start, taught).train()
    assert task.training
    assert not any(module.training for module in task.model.modules())


def test_nothing_to_train_on_or_to_stop_by_is_an_error(start, taught, tmp_path):
    with pytest.raises(EncoderError, match="no pair is held out to decide when training stops"):
        train(start, taught, tmp_path / "multi", Material(material().training, []))
    with pytest.raises(TrainingError, match="there is nothing to train on"):
        train(start, taught, tmp_path / "multi", Material([], material().held_out))
