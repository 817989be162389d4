"""What a text is embedded with never changes its embeddings, not even in the last bit: for every method."""

import random
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from synthetic import random_rows
from tiny_encoder import tiny_encoder

from disent_core import methods
from disent_core.encoders.fine_tunable import TunableEncoder, VectorMap
from disent_core.methods.facet_head import FacetHead, TrainedFacet
from disent_core.methods.families import ClosedFormMethod, FineTunedMethod, FrozenHeadMethod, UntrainedMethod
from disent_core.methods.families.frozen import TrainedHead
from disent_core.methods.families.seed_by_seed import FineTuned
from disent_core.methods.families.unseeded import Solved
from disent_core.methods.lexicon_head import TrainedLexicon
from disent_core.methods.modules.hashed_words import HashedNgramTable, ngram_bags
from disent_core.methods.trainer import trainer
from disent_core.registry import imported
from disent_core.training.data import StateBank, TextFeatures, VectorBank

DIM = 48
LANGUAGES = 3
chance = random.Random(0)
LENGTHS = [chance.randint(1, 40) for _ in range(120)]
TEXTS = [" ".join(chance.choices(["toy", "en", "de", *map(str, range(40))], k=length)) for length in LENGTHS]
ALIKE = {
    "emu_no_discriminator", "emu_no_discriminator_no_center", "emu_parallel", "softmax", "contrastive", "npair",
    "meat", "oracle", "meat_oracle", "fmda_two_stage",
}  # fmt: skip
"""Methods that embed with the code of `emu`, `dream`, `dream_oracle` or `fmda`."""
EMBEDDING = [name for name in methods.METHODS if methods.method(name).embeddings and name not in ALIKE]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return tiny_encoder(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module", params=[1, 2])
def threads(request):
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def features(texts):
    """The same vectors, states and words of these texts, wherever they are."""
    lengths = torch.tensor(LENGTHS)
    values = VectorBank([random_rows(sum(LENGTHS), DIM, seed=1).half()])
    states = StateBank(values, lengths.cumsum(0) - lengths, lengths)
    vectors = VectorBank([random_rows(len(LENGTHS), DIM, seed=2).float()])
    rows = torch.tensor(texts)
    return TextFeatures(vectors, rows, states, rows, "en", [TEXTS[text] for text in texts])


def weighted(module):
    """Random weights everywhere: several heads begin with zeros."""
    torch.manual_seed(0)
    with torch.no_grad():
        for value in [*module.parameters(), *module.buffers()]:
            if value.is_floating_point():
                value.copy_(torch.randn(value.shape) * 0.2)
    return module.eval()


def trained(method, settings, files):
    if isinstance(method, UntrainedMethod):
        return trainer(method).load(files.folder, settings, "cpu")
    if isinstance(method, ClosedFormMethod):
        solution = {f"{what}.en": random_rows(*shape, seed=3) for what, shape in
                    {"mean": (DIM,), "bias": (DIM,), "weight": (DIM, DIM)}.items()}  # fmt: skip
        return Solved(imported(method.apply), solution, settings)
    if isinstance(method, FrozenHeadMethod):
        return TrainedHead({0: weighted(imported(method.head)(DIM, LANGUAGES, settings))}, "cpu")
    if isinstance(method, FineTunedMethod):
        tuned = settings.vector_map
        source = TunableEncoder(files, "cpu") if tuned is None else weighted(VectorMap(DIM, tuned))
        model = FineTuned(files.folder, source, "sentence")
        model._seed = 0
        return model
    if method.name == "facet":
        words = known_words(settings.words_width) if settings.reads_words else None
        model = TrainedFacet(files.folder, settings)
        head = weighted(FacetHead(DIM, LANGUAGES, settings, words))
        model.head = lambda seed: head
        return model
    assert method.name in ("lexicon", "facet_static")
    return TrainedLexicon({0: known_words(settings.width)}, settings)


def known_words(dim):
    return weighted(HashedNgramTable.of_texts(ngram_bags(TEXTS[::2]), dim, 5))


def embed(model, texts):
    embeddings = model.embed(features(texts), 0)
    return embeddings if isinstance(next(iter(embeddings.values())), np.ndarray) else by_text(embeddings)


def by_text(embeddings):
    ((name, tokens),) = embeddings.items()
    ends = tokens.offsets.tolist()
    return {name: np.array([tokens.values[a:b].numpy().tobytes() for a, b in pairwise(ends)])}


def presets(method):
    """Those that embed differently, without those that read the other texts: their mean is not of one text."""

    def embeds(item):
        if isinstance(method, FrozenHeadMethod):
            return str(imported(method.head)(DIM, LANGUAGES, item)) + item.precision
        return getattr(item, "vector_map", repr(item))

    for preset in {embeds(item): item for item in method.presets.values()}.values():
        if "test" not in (getattr(preset, "source", ""), getattr(preset, "center", "")):
            yield replace(preset, center=False) if getattr(preset, "center", None) is True else preset


@pytest.mark.parametrize("name", EMBEDDING)
def test_a_text_has_the_same_embeddings_alone_and_among_others(name, files, threads):
    method = methods.method(name)
    for settings in presets(method):
        model, everything = trained(method, settings, files), list(range(len(TEXTS)))
        whole, drawn = embed(model, everything), random.Random(1)
        for count in (1, 2, 40, 120):
            texts = drawn.sample(everything, count)
            for embedding, rows in embed(model, texts).items():
                assert (rows == whole[embedding][texts]).all(), (embedding, count)
