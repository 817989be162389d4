"""Train and apply Facet: two views of a text, training on translations and slot swaps, and erasure of the language.

The module also has the head of the first generation, `facet_first`, and `facet_static`, a table of hashed words trained
on many languages at once.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from disent_core.encoders.contract import EncoderFiles
from disent_core.errors import TrainingError
from disent_core.losses import similarity
from disent_core.losses.contrastive import in_batch_softmax
from disent_core.matmul import affine, set_precision
from disent_core.methods.facet import FacetConfig, FacetFirstConfig, FacetStaticConfig, draws
from disent_core.methods.families.seed_by_seed import SeedBySeedTrainer
from disent_core.methods.lexicon_head import (
    EMBED_BLOCK,
    LexiconTask,
    LexiconTrainer,
    MatedBatch,
    MatedPairsTask,
    PairBags,
    copies_of_pairs,
    pair_bags,
    side_by_side,
    table_seed,
)
from disent_core.methods.modules.hashed_words import HashedNgramTable, NgramBags, ngram_bags
from disent_core.methods.modules.token_pooling import MaxPooledLinear, of_role, permuted, state_groups
from disent_core.methods.trainer import TrainedMethod, filled
from disent_core.optimisation.optimiser import Optimiser, RowOptimiser
from disent_core.optimisation.seeds import derived_seed, generator
from disent_core.optimisation.steps import Terms
from disent_core.storage.weights import describe_weights, read_weights
from disent_core.training.data import Batch, TextFeatures, TrainingData, embedded
from disent_core.training.needs import SIDES
from disent_core.training.sampling import PairSampler
from disent_core.training.stacked import Head


class LanguageEraser(nn.Module):
    """x -> x - (x - centre) basis basis', where the nonzero columns of `basis` [dim, dim] span what is erased.

    Until fitted, it returns its input without computing anything: in training, products with zeros would take a sixth
    of a step of `facet`.
    """

    centre: Float[Tensor, " dim"]
    basis: Float[Tensor, "dim dim"]

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.register_buffer("centre", torch.zeros(dim))
        self.register_buffer("basis", torch.zeros(dim, dim))

    def forward(self, vectors: Float[Tensor, "texts dim"]) -> Float[Tensor, "texts dim"]:
        """Return the vectors with the language erased; norms change slightly."""
        if not self.basis[:, 0].any():  # the first direction to be erased has the least variance
            return vectors
        return vectors - (vectors - self.centre) @ self.basis @ self.basis.T

    @torch.no_grad()
    def fit(
        self, vectors: Float[Tensor, "texts dim"], languages: Int[Tensor, " texts"], kept_variance: float = 1.0
    ) -> None:
        """Estimate means and variances in float64. All languages have equal weight, whatever their number of texts.

        `kept_variance` is the share of the within-language variance to keep, in the directions of most variance.
        """
        vectors = vectors.double()
        covariance = torch.zeros(vectors.shape[1], vectors.shape[1], dtype=torch.float64)
        means: list[Tensor] = []
        for label in languages.unique():
            of_language = vectors[languages == label]
            means.append(of_language.mean(dim=0))
            covariance += (of_language - means[-1]).T @ (of_language - means[-1]) / len(of_language)
        centre = torch.stack(means).mean(dim=0)
        differences, sizes, _ = torch.linalg.svd((torch.stack(means) - centre).T, full_matrices=False)
        differences = differences[:, sizes > 1e-9 * sizes.max()]
        within = torch.eye(len(centre), dtype=torch.float64) - differences @ differences.T
        # Smallest variances first; those of the differences are 0.
        variances, directions = torch.linalg.eigh(within @ covariance @ within)
        is_erased = variances.cumsum(dim=0) <= (1 - kept_variance + 1e-12) * variances.sum()
        self.centre.copy_(centre)
        self.basis.copy_(directions * is_erased)


class FacetHead(nn.Module):
    """Four parts of a text's meaning, each of unit norm: template and residual, from token states and from words.

    `units`: token states -> template and residual units; `words`: hashed words -> the same, None if words are not read;
    `language`: sentence vector -> language logits; `erasers`: one for each part, then one for the sentence vector if
    the meaning includes it; all are identities until `FacetTask.erase_language`.
    """

    def __init__(self, dim: int, n_languages: int, config: FacetConfig, words: HashedNgramTable | None) -> None:
        super().__init__()
        self.config, self.words = config, words
        widths: list[int] = []
        self.units = None
        if config.reads_states:
            widths += [config.template_units, config.residual_units]
            self.units = MaxPooledLinear(dim, sum(widths))
        if words is not None:
            widths += [config.template_words, config.residual_words]
        self.language = nn.Linear(dim, n_languages)
        if config.sentence_weight:
            widths.append(dim)
        erasers = nn.ModuleList(LanguageEraser(width) for width in widths)
        self.erasers = cast("Sequence[LanguageEraser]", erasers)

    def parts(self, text: Batch, words: Float[Tensor, "texts _"] | None) -> list[Float[Tensor, "texts _"]]:
        """Return the template and residual of each view in turn, normalised and then with the language erased.

        `words` has the vectors that `self.words` gives the texts; None if words are not read.
        """
        config, views = self.config, []
        if self.units is not None:
            views += pooled(self.units, text).split([config.template_units, config.residual_units], dim=-1)
        if words is not None:
            views += words.split([config.template_words, config.residual_words], dim=-1)
        return [
            eraser(F.normalize(part, dim=-1)) for eraser, part in zip(self.erasers[: len(views)], views, strict=True)
        ]

    def sentence(self, vectors: Float[Tensor, "texts dim"]) -> Float[Tensor, "texts dim"]:
        return self.erasers[-1](F.normalize(vectors, dim=-1))

    def embed(self, text: Batch, words: Float[Tensor, "texts _"] | None) -> Batch:
        embedded, weight = side_by_side(self.parts(text, words)), self.config.sentence_weight
        if weight:
            sides = (1 - weight) ** 0.5 * embedded["meaning"], weight**0.5 * self.sentence(text["vectors"])
            embedded["meaning"] = torch.cat(sides, dim=-1)
        return embedded | {"language": likeliest(self.language(text["vectors"]))}


def pooled(units: MaxPooledLinear, text: Batch) -> Float[Tensor, "texts units"]:
    """Return the maximum of each unit over the tokens of each text, in the order of the texts."""
    maxima = torch.cat([units(states, mask) for states, mask in state_groups(text)])
    return permuted(maxima, text["place"], text["order"])


def likeliest(logits: Float[Tensor, "texts languages"]) -> Float[Tensor, "texts languages"]:
    """Return the likeliest language, one-hot: at most log2(languages) bits, so nothing else can leak into it."""
    return F.one_hot(logits.argmax(dim=-1), logits.shape[-1]).to(logits.dtype)


def _read_head(path: Path, config: FacetConfig, seed: int) -> FacetHead:
    """Read the head of a seed; it embeds in float32."""
    description = describe_weights(path)[0]
    weights, words = read_weights(path, seed)[0], None
    if config.reads_words:
        words = HashedNgramTable.stored(path, weights, config.words_width, table_seed(seed), prefix="words.")
    for name, value in weights.items():  # heads of code version 4 have only one column per language
        if name.endswith(".basis") and value.ndim == 2:
            weights[name] = F.pad(value, (0, len(value) - value.shape[1]))
    build = partial(FacetHead, description["dim"], len(description["languages"]), config, words)
    return filled(path, build, weights)


class TrainedFacet(TrainedMethod):
    """The heads of all seeds, with the weights of one seed in memory, because a table of words is large."""

    def __init__(self, path: Path, config: FacetConfig) -> None:
        self.path, self.config = path, config
        self.head = lru_cache(maxsize=1)(partial(_read_head, path, config))

    def embed(self, features: TextFeatures, seed: int | None) -> dict[str, np.ndarray]:
        if seed is None:
            raise ValueError("a trained head embeds with one of its seeds, not None")
        head, words = self.head(seed), None
        with torch.inference_mode():
            if head.words is not None:
                if features.texts is None:
                    raise ValueError("facet reads words, and these features have no texts")
                words = head.words.in_blocks(ngram_bags(features.texts))
            return embedded(
                lambda text, places: head.embed(text, None if words is None else words[places]), features, "cpu"
            )


class FacetTask(MatedPairsTask):
    def __init__(self, data: PairBags, sampler: PairSampler, config: FacetConfig, seed: int) -> None:
        super().__init__(data, config, seed)
        self.sampler = sampler
        self.weights = {
            "template_contrast": config.template_weight,
            "residual_repulsion": config.repulsion,
            "reading_contrast": config.reading_weight,
        }
        self.labels = torch.stack([sampler.data.splits["train"].language[side] for side in SIDES], dim=1)
        words = data.table(config.words_width, seed, config.at_least) if config.reads_words else None
        self.head = FacetHead(sampler.data.dim, len(sampler.data.languages), config, words)
        set_precision(self.head, config.precision)
        of_words = {} if words is None else {"words": RowOptimiser(words.table, config.optimiser_of_words)}
        others = [value for name, value in self.head.named_parameters() if name != "words.table"]
        self.optimisers = {"main": Optimiser(others, config.optimiser), **of_words}
        self.vectors = None  # both sides of every training pair, projected at random
        if config.neighbours > 1:
            texts, random = data.pairs["train"].flatten(), derived_seed(seed, "neighbours")
            self.vectors = projected(data.bags, data.trained, texts, random).view(-1, 2 * PROJECTED)

    def order(self, random: torch.Generator) -> Int[Tensor, " pairs"]:
        if self.vectors is None:
            return super().order(random)
        return neighbours_together(self.vectors, self.config.neighbours, random)

    def embed(self, texts: Int[Tensor, " texts"]) -> dict[str, Float[Tensor, "texts _"]]:
        return side_by_side(self.parts(texts))

    def parts(self, texts: Int[Tensor, " texts"]) -> list[Float[Tensor, "texts _"]]:
        words = None if self.head.words is None else self.head.words(self.data.bags.take(texts))
        return self.head.parts(self.sampler.text(self.data.rows[texts]), words)

    def terms(self, embedded: Mapping[str, Float[Tensor, "sides pairs_and_mates _"]], batch: MatedBatch) -> Terms:
        """Return the inherited terms, `language_identification` in nats, `reading_contrast` and `residual_repulsion`.

        `reading_contrast` is the weighted sum of both contrasts, computed on each view alone. `residual_repulsion` is
        the mean, over texts with mates, of max(0, cosine of the two residuals): mates share only the template.
        """
        count = len(batch.chosen)
        vectors = self.sampler.data.vectors.take(self.data.rows[batch.pairs[:count].flatten()])
        labels = self.labels[batch.chosen].flatten()
        terms = {
            **super().terms(embedded, batch),
            "language_identification": similarity.cross_entropy(self.head.language(vectors), labels).mean(),
        }
        if self.config.reading_weight and self.config.reads_states and self.config.reads_words:
            alone = [super(FacetTask, self).terms(view, batch) for view in self.views(embedded)]
            weighted = [value * self.weights.get(name, 1.0) for terms in alone for name, value in terms.items()]
            terms["reading_contrast"] = torch.stack(weighted).sum()
        has_mate = batch.mate_of >= count
        if self.config.repulsion and has_mate.any():
            residual = embedded["residual"]
            shared = (residual[:, :count][:, has_mate] * residual[:, batch.mate_of[has_mate]]).sum(dim=-1)
            terms["residual_repulsion"] = shared.clamp_min(0).mean()
        return terms

    def views(self, embedded: Mapping[str, Float[Tensor, "*texts _"]]) -> list[dict[str, Float[Tensor, "*texts _"]]]:
        """Return `meaning` and `template`, of unit norm, from token states alone and from words alone."""
        config = self.config
        templates = [config.template_units, config.template_words]
        meanings = [config.template_units + config.residual_units, config.template_words + config.residual_words]
        sides = zip(
            embedded["meaning"].split(meanings, dim=-1), embedded["template"].split(templates, dim=-1), strict=True
        )
        return [{"meaning": meaning * 2**0.5, "template": template * 2**0.5} for meaning, template in sides]

    def step(self, batch: MatedBatch) -> tuple[Terms, int]:
        terms, count = self.loss(batch)
        optimisers = self.optimisers.values()
        for optimiser in optimisers:
            optimiser.adam.zero_grad(set_to_none=True)
        terms["total"].backward(inputs=[value for optimiser in optimisers for value in optimiser.parameters])
        for optimiser in optimisers:
            optimiser.adam.step()
        return terms, count

    @torch.no_grad()
    def erase_language(self) -> None:
        """Fit the erasers to everything that has one, of the texts of all training pairs."""
        blocks = []
        for texts in self.data.pairs["train"].flatten().split(EMBED_BLOCK):
            blocks.append(self.parts(texts))
            if self.config.sentence_weight:
                blocks[-1].append(self.head.sentence(self.sampler.data.vectors.take(self.data.rows[texts])))
        parts = [torch.cat(part) for part in zip(*blocks, strict=True)]
        for eraser, part in zip(self.head.erasers, parts, strict=True):
            eraser.fit(part, self.labels.flatten(), self.config.kept_variance)


class FacetTrainer(SeedBySeedTrainer[Any]):
    """The trainer of Facet. It computes on the CPU, where a seed takes a minute and a half on MASSIVE."""

    def tasks(self, data: TrainingData, config: FacetConfig, device: str) -> Callable[[int], FacetTask]:
        if "mates" in config.without:
            data = replace(data, mates={})
        pairs, sampler = pair_bags(data), PairSampler(data, states=config.reads_states)
        return lambda seed: FacetTask(pairs, sampler, config, seed)

    @torch.no_grad()
    def weights(self, task: FacetTask) -> dict[str, Tensor]:
        """Erase the language and return the weights.

        Storing the table in half precision has changed no ranking that we have seen. The erasers are fitted to what
        will be embedded: with the rounded table, in float32.
        """
        set_precision(task.head, "float32")
        words, kept = task.head.words, {}
        if words is not None:
            kept = {"words.table": words.table.half()}
            words.table.copy_(kept["words.table"])
        if "erasure" not in task.config.without:
            task.erase_language()
        return {**task.head.state_dict(), **kept}

    def load(self, path: Path, config: FacetConfig, device: str, encoder: EncoderFiles | None = None) -> TrainedFacet:
        return TrainedFacet(path, config)


PROJECTED = 256
"""Width of the random projection of the words of a side, which keeps cosines to about 1 / 16."""


@torch.no_grad()
def projected(
    bags: NgramBags, weighing: Int[Tensor, " some"], texts: Int[Tensor, " texts"], seed: int
) -> Float[Tensor, "texts dim"]:
    """Return random projections of texts, of unit norm; the texts `weighing` determine how rare a word or n-gram is."""
    words = HashedNgramTable.of_texts(bags.take(weighing), PROJECTED, seed)
    return F.normalize(words.in_blocks(bags, texts), dim=-1)


def neighbours_together(
    vectors: Float[Tensor, "pairs dim"], size: int, random: torch.Generator
) -> Int[Tensor, " pairs"]:
    """Return a random order of all pairs in which runs of at most `size` pairs have similar vectors.

    Two random pairs split the rest into halves, each nearer to one of them; each half is split again down to `size`.
    """
    groups, done = [torch.randperm(len(vectors), generator=random)], list[Tensor]()
    while groups:
        group = groups.pop()
        if len(group) <= size:
            done.append(group)
            continue
        first, second = group[torch.randint(len(group), (2,), generator=random)]
        # Rounded, so that equal texts have equal values whatever the order of summation.
        nearer = ((vectors[group] @ (vectors[first] - vectors[second])) * 2**16).round()
        groups += group[nearer.argsort(stable=True)].tensor_split(2)
    return torch.cat([done[group] for group in torch.randperm(len(done), generator=random).tolist()])


# --- facet_first ------------------------------------------------------------------------------------------

SOURCE, TARGET, SOURCE_SWAP, TARGET_SWAP = range(4)
"""Indices of a batch's texts in `ROLES`. A slot swap is the same utterance with other slot values."""
ROLES = (*SIDES, *(f"{side}_slot_swap" for side in SIDES))
SWAPS = ((SOURCE, SOURCE_SWAP), (TARGET, TARGET_SWAP))


class FacetFirstHead(Head):
    """`units`: token states -> template and residual units; `language`: sentence vector -> language logits."""

    def __init__(self, dim: int, n_languages: int, config: FacetFirstConfig) -> None:
        super().__init__()
        self.config = config
        self.units = MaxPooledLinear(dim, config.template_units + config.residual_units)
        self.language = nn.Linear(dim, n_languages)

    def embed(self, batch: Batch) -> Batch:
        """Return `meaning`, `template` and `residual`, of unit norm, and `language`."""
        return self._facets(batch) | {"language": likeliest(self.language(batch["vectors"]))}

    def encode(self, batch: Batch) -> Batch:
        """Return the embeddings of all texts of the step: [roles, pairs, units]."""
        roles = ROLES if "slot_swap" in draws(self.config) else SIDES
        by_role = [self._facets(of_role(batch, role)) for role in roles]
        return batch | {name: torch.stack([embeddings[name] for embeddings in by_role]) for name in by_role[0]}

    def _facets(self, text: Batch) -> Batch:
        parts = pooled(self.units, text).split([self.config.template_units, self.config.residual_units], dim=-1)
        return side_by_side([F.normalize(part, dim=-1) for part in parts])

    def terms(self, encoded: Batch) -> Batch:
        """Return the loss terms, each averaged over both directions, and `template_contrast` also over both sides."""
        labels = torch.cat([encoded[f"{side}_language"] for side in SIDES])
        logits = self.language(encoded["role_vectors"][: len(SIDES)].flatten(0, 1))
        terms = {
            "meaning_contrast": self.meaning_contrast(encoded),
            "language_identification": similarity.cross_entropy(logits, labels).mean(),
        }
        if "template_contrast" not in self.config.without:
            terms["template_contrast"] = self.template_contrast(encoded)
        return terms

    def meaning_contrast(self, encoded: Batch) -> Float[Tensor, ""]:
        """InfoNCE in both directions: find the translation among the other side's texts and their slot swaps."""
        meaning, texts = encoded["meaning"], encoded["role_texts"]
        copies = copies_of_pairs(torch.stack([texts[SOURCE], texts[TARGET]], dim=1))
        losses = []
        for query, answer, answer_swap in ((SOURCE, TARGET, TARGET_SWAP), (TARGET, SOURCE, SOURCE_SWAP)):
            candidates, excluded = meaning[answer], copies
            if "mate_negatives" not in self.config.without:
                candidates = torch.cat([candidates, meaning[answer_swap]])
                excluded = torch.cat([excluded, texts[answer].unsqueeze(1) == texts[answer_swap]], dim=1)
            losses.append(self._retrieval(meaning[query], candidates, excluded, self.config.temperature))
        return torch.stack(losses).mean()

    def template_contrast(self, encoded: Batch) -> Float[Tensor, ""]:
        """InfoNCE in both directions: find the utterance's slot swap among the slot swaps of the batch."""
        template, texts, temperature = encoded["template"], encoded["role_texts"], self.config.template_temperature
        losses = []
        for side, swap in SWAPS:
            copies = copies_of_pairs(torch.stack([texts[side], texts[swap]], dim=1))
            for query, answer in ((side, swap), (swap, side)):
                losses.append(self._retrieval(template[query], template[answer], copies, temperature))
        return torch.stack(losses).mean()

    def _retrieval(
        self, queries: Tensor, candidates: Tensor, excluded: Tensor, temperature: float
    ) -> Float[Tensor, ""]:
        cosines = affine(queries, candidates, candidates.new_zeros(len(candidates)), self.units.precision)
        return in_batch_softmax(cosines, excluded, temperature=temperature).mean()


# --- facet_static -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LanguageGroups:
    """Training utterances in all languages as indices of texts, -1 where a language lacks an utterance.

    `utterances` [groups, languages] has the source language first; `mates` [numbers, groups, languages] has the mates;
    a mate in any language also exists in the source language.
    """

    utterances: Int[Tensor, "groups languages"]
    mates: Int[Tensor, "numbers groups languages"]

    @classmethod
    def of(cls, data: TrainingData, bags: PairBags) -> "LanguageGroups":
        """Group the training pairs of a mixture by utterance; all pairs have the same source language."""
        pairs, group = data.splits["train"], data.groups["train"]
        sources = pairs.language["source"].unique()
        if len(sources) > 1:
            names = ", ".join(data.languages[label] for label in sources.tolist())
            raise TrainingError(
                f"the pairs of this training set begin with several languages ({names}), and facet_static pairs all "
                "languages with one. Write the set as en-de+en-es+en-ja, from one language to each other"
            )
        labels, column = pairs.language["target"].unique(return_inverse=True)
        utterances = torch.full((int(group.max()) + 1, len(labels) + 1), -1)
        utterances[group, 0] = bags.pairs["train"][:, 0]
        utterances[group, column + 1] = bags.pairs["train"][:, 1]
        if "train" not in data.mates or not len(data.mates["train"]):
            return cls(utterances, torch.full((0, *utterances.shape), -1))
        swaps = data.mates["train"]
        mates = torch.full((int(swaps.number.max()) + 1, *utterances.shape), -1)
        mates[swaps.number, group[swaps.pair], 0] = bags.mates[:, 0]
        if bool((mates[swaps.number, group[swaps.pair], 0] != bags.mates[:, 0]).any()):
            raise TrainingError(
                "the mates of this training set differ from pair to pair, and facet_static needs the same ones in all "
                'languages. Set draw = "by_source" in [targets.parallel_mates]'
            )
        mates[swaps.number, group[swaps.pair], column[swaps.pair] + 1] = bags.mates[:, 1]
        return cls(utterances, mates)


class FacetStaticTask(LexiconTask):
    """Training of one seed: the table, and the utterances in all languages.

    Untrained rows have norm 1 here; `unseen` scales them when texts are embedded after training.
    """

    def __init__(self, data: PairBags, groups: LanguageGroups, config: FacetStaticConfig, seed: int) -> None:
        super().__init__(data, config, seed)
        self.groups = groups
        self.weights = {"template_contrast": config.template_weight}
        sources = groups.utterances[:, 0]
        self.vectors = projected(data.bags, sources.unique(), sources, derived_seed(seed, "neighbours"))

    def batches(self, epoch: int) -> Sequence[MatedBatch]:
        """Return the steps of an epoch: enough passes over the utterances to cover each of them in every language."""
        random = generator(self.seed, "epoch", epoch)
        others = self.groups.utterances.shape[1] - 1
        per_step = min(self.config.languages_per_step, others)
        steps = []
        for _ in range(-(-others // per_step)):
            for chosen in neighbours_together(self.vectors, self.config.neighbours, random).split(
                self.config.batch_size
            ):
                languages = torch.cat([torch.zeros(1, dtype=torch.int64), 1 + torch.randperm(others, generator=random)])
                batch = self._step(chosen, languages[: per_step + 1], random)
                if len(batch.chosen) > 1:
                    steps.append(batch)
        return steps

    def _step(
        self, chosen: Int[Tensor, " groups"], sides: Int[Tensor, " sides"], random: torch.Generator
    ) -> MatedBatch:
        utterances = self.groups.utterances[chosen][:, sides]
        is_complete = (utterances >= 0).all(dim=1)
        chosen, utterances = chosen[is_complete], utterances[is_complete]
        if not len(self.groups.mates):
            return MatedBatch(chosen, utterances, torch.arange(len(chosen)))
        drawn = torch.randint(len(self.groups.mates), (len(chosen),), generator=random)
        mates = self.groups.mates[drawn, chosen][:, sides]
        has_mate = (mates >= 0).all(dim=1)
        return MatedBatch.of(chosen, utterances, mates[has_mate], has_mate)

    def loss(self, batch: MatedBatch) -> tuple[Terms, int]:
        """Return `meaning_contrast` of translations, `template_contrast` of utterances with mates, and their sum."""
        groups, count = batch.pairs, len(batch.chosen)
        mates = groups[batch.mate_of]
        distinct, rows_of = torch.cat([groups, mates]).mT.unique(return_inverse=True)  # [sides, groups and mates]
        embedded = self.embed(distinct)
        meaning = embedded["meaning"][rows_of[:, : len(groups)]]
        terms = {"meaning_contrast": self.translations(meaning, groups)}
        if "template_contrast" not in self.config.without and len(self.groups.mates):
            template = embedded["template"]
            sides = (
                (template[rows[:count]], template[rows[len(groups) :]], torch.stack(texts, dim=1))
                for rows, *texts in zip(rows_of, groups[:count].T, mates.T, strict=True)
            )
            terms["template_contrast"] = self.mean_contrast(sides, self.config.template_temperature)
        return self.with_total(terms), count


class FacetStaticTrainer(LexiconTrainer):
    """The trainer of `facet_static`. It computes on the CPU, where a step takes half a second."""

    def tasks(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, data: TrainingData, config: FacetStaticConfig, device: str
    ) -> Callable[[int], FacetStaticTask]:
        bags = pair_bags(data, config.table_rows)
        groups = LanguageGroups.of(data, bags)
        return lambda seed: FacetStaticTask(bags, groups, config, seed)
