"""Corpora of sentence pairs, of tags, of one language and of a handful of utterances take the whole way."""

import re

import pytest
from worlds import corpus

pytestmark = pytest.mark.end_to_end

CORPORA = (
    corpus("bitext", "moses", splits=[0.6, 0.2, 0.2])
    + corpus("held_out", "moses", splits=[0.6, 0.2, 0.2], train=False)
    + corpus("tatoeba", "tatoeba")
    + corpus("sts", "sts")
    + corpus("names", "conll")
)
DREAM = ("[methods.dream]\nmax_epochs = 6\n", '[methods.dream]\nmax_epochs = 2\npairs = ["en-fr", "en-de"]\n')


@pytest.fixture
def project(fresh):
    """French comes from sentence pairs only, Danish only in a test set, Yoruba only with named entities."""
    things = [f"thing{i}" for i in range(60)]
    fresh.write_lines("bitext/en-fr.en", [f"the {thing} is here" for thing in things])
    fresh.write_lines("bitext/en-fr.fr", [f"le {thing} est ici" for thing in things])
    fresh.write_lines("held_out/en-fr.en", [f"where is the {thing}" for thing in things])
    fresh.write_lines("held_out/en-fr.fr", [f"où est le {thing}" for thing in things])
    fresh.write_lines("tatoeba/tatoeba.fra-eng.fra", [f"un {thing}" for thing in things[:20]])
    fresh.write_lines("tatoeba/tatoeba.fra-eng.eng", [f"one {thing}" for thing in things[:20]])
    fresh.write_lines("tatoeba/tatoeba.dan-eng.dan", [f"en {thing}" for thing in things[:20]])
    fresh.write_lines("tatoeba/tatoeba.dan-eng.eng", [f"one {thing}" for thing in things[:20]])
    fresh.write_lines(
        "sts/STS.input.track5.en-en.txt",
        [f"a {a}\tthe {b}" for a, b in zip(things, things[1:] + things[:1], strict=True)],
    )
    fresh.write_lines("sts/STS.gs.track5.en-en.txt", [str(i % 6) for i in range(60)])
    for split in ("train", "dev", "test"):
        fresh.write_lines(f"names/yor/{split}.txt", ["Ada B-PER", "rin O", "", "Eko B-LOC", "dara O", ""])
    fresh.configure("[[encoders]]", f"{CORPORA}\n[[encoders]]")
    fresh.only("raw", "centered", "dream")
    fresh.configure(*DREAM)
    return fresh


def measured(project, task: str, method: str = "dream") -> list[tuple[str, str, str]]:
    sql = (
        f"select distinct trained_on, dataset, evaluated_on from metrics where task = '{task}' and method = '{method}'"
    )
    return sorted((row["trained_on"], row["dataset"], row["evaluated_on"]) for row in project.ask(sql))


def test_a_method_trains_on_sentence_pairs_and_is_measured_on_all_applicable_tasks(project):
    tasks = ["heldout_retrieval", "tatoeba_retrieval", "sts", "crosslingual_retrieval"]
    project.configure("[evaluation]", f'[evaluation]\nhubness = ["none", "train_bias"]\ntasks = {tasks}')
    project.materialize()
    both = [("en-fr", name, where) for name in ("bitext", "held_out") for where in ("en-fr", "fr-en")]
    assert measured(project, "heldout_retrieval") == both
    assert measured(project, "tatoeba_retrieval") == [("en-fr", "tatoeba", "en-fr"), ("en-fr", "tatoeba", "fr-en")]
    assert measured(project, "sts") == [("en-de", "sts", "en-en"), ("en-fr", "sts", "en-en")]
    untrained = [("", "tatoeba", where) for where in ("da-en", "en-da", "en-fr", "fr-en")]
    assert measured(project, "tatoeba_retrieval", "raw") == untrained
    assert measured(project, "crosslingual_retrieval") == [("en-de", "sample", "de-en"), ("en-de", "sample", "en-de")]
    assert project.ask("select count(*) as n from comparisons where method_a = 'dream' and method_b = 'raw'")[0]["n"]
    assert project.disent("status").stdout.splitlines()[-1].endswith("0 stale, 0 missing")

    # A changed line of a test set is one text and no head. Languages that a head has not seen are measured where that
    # is asked for, but not by a method that needs their statistics.
    project.configure("[evaluation]", "[evaluation]\nunseen = true")
    sentences = project.folder / "tatoeba/tatoeba.fra-eng.fra"
    sentences.write_text(sentences.read_text(encoding="utf-8").replace("un thing3\n", "une chose\n"), encoding="utf-8")
    edited = project.materialize()
    assert (edited["encoded"], edited["steps"]) == (1, 0)
    assert ("en-de", "tatoeba", "da-en") in measured(project, "tatoeba_retrieval")
    assert ("en-de", "tatoeba", "da-en") not in measured(project, "tatoeba_retrieval", "centered")


def is_drawn(project, method: str, pair: str) -> bool:
    return project.workspace.plot("tiny", method, pair, name="pca").exists()


def test_an_encoder_is_tuned_on_sentence_pairs_alone_and_embeddings_of_these_and_of_one_language_are_drawn(
    project, drawn
):
    project.configure('["raw", "centered", "dream"]', '["fine_tuned", "softmax"]')
    of_language = '\n[methods.softmax]\ntune = "head"\nepochs = 1\npairs = ["en"]\n'
    project.configure(DREAM[1], f'[methods.fine_tuned]\nepochs = 1\npairs = ["en-fr"]\nseeds = [0]\n{of_language}')
    project.configure("[evaluation]", '[evaluation]\ntasks = ["heldout_retrieval"]')
    project.materialize()
    assert is_drawn(project, "fine_tuned", "en-fr")
    assert is_drawn(project, "softmax", "en")
    assert ("en-fr", "bitext", "en-fr") in measured(project, "heldout_retrieval", "fine_tuned")


MISSED = {
    "fmda": r"none of \d+ training pairs has masked texts.* Give its languages a corpus of utterances with slots",
    "contrastive": r"no training utterance of en has an intent. Give these languages a corpus with intents",
    "twosl": r"en-fr has no train sentence in a target language. Set split .* give these languages a corpus with slots",
}


def test_the_error_of_unsuitable_sentence_pairs_names_the_head(project):
    text = project.config.read_text(encoding="utf-8")
    bitext = corpus("bitext", "moses", splits=[0.6, 0.2, 0.2])
    project.config.write_text(bitext + text[text.index("[[encoders]]") :], encoding="utf-8")
    project.configure('["raw", "centered", "dream"]', str([*MISSED]))
    project.configure('pairs = ["en-de"]', 'pairs = ["en-fr"]')
    project.configure(DREAM[1], "")
    result = project.disent("materialize")
    assert result.exit_code == 1
    for method, missed in MISSED.items():
        assert re.search(rf"{method} on tiny, en-fr: {missed}", result.output), method


def test_the_error_of_an_absent_pair_lists_the_present_ones(project):
    project.configure('path = "tatoeba"', 'path = "tatoeba"\npairs = ["de-en"]')
    result = project.disent("status")
    assert result.exit_code == 2
    assert "corpora[3].pairs: tatoeba has no 'de-en'" in result.output
    assert "it has da-en, fr-en" in result.output


# --- small inputs ---


def test_three_dev_utterances_are_enough_for_a_head_but_not_for_a_picture(fresh, drawn):
    fresh.only("dream")
    dev = [row["id"] for row in fresh.utterances("en-US") if row["partition"] == "dev"]
    for locale in ("en-US", "de-DE", "ja-JP"):
        fresh.write(locale, [row for row in fresh.utterances(locale) if row["id"] not in dev[3:]])
    fresh.materialize("+heads")
    assert not is_drawn(fresh, "dream", "en-de")
    assert fresh.workspace.head("tiny", "dream", "en-de").is_file()
