"""Train one table of hashed words on the utterances of many languages at once: `facet_static`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from disent_core.errors import TrainingError
from disent_core.methods.facet_head import neighbours_together, projected
from disent_core.methods.facet_static import FacetStaticConfig
from disent_core.methods.lexicon_head import LexiconTask, LexiconTrainer, PairBags, pair_bags
from disent_core.optimisation.seeds import derived_seed, generator
from disent_core.optimisation.steps import Terms
from disent_core.training.data import TrainingData


@dataclass(frozen=True)
class LanguageGroups:
    """Training utterances in all languages as numbers of texts, -1 where a language lacks one.

    `utterances` [groups, languages] has the source language first; `mates` [numbers, groups, languages] has the mates,
    each of which exists in the source language if in any.
    """

    utterances: Int[Tensor, "groups languages"]
    mates: Int[Tensor, "numbers groups languages"]

    @classmethod
    def of(cls, data: TrainingData, bags: PairBags) -> "LanguageGroups":
        """Group the training pairs of a mixture, all of one source language, by utterance.

        Raises:
            TrainingError: if the pairs have several source languages, or mates that are no translations of each other.
        """
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


@dataclass(frozen=True)
class GroupBatch:
    """Texts of one step by side, source language first: utterances, and mates that exist on every side.

    `mate_of` has for each utterance the mate on its side, or itself where it has none.
    """

    utterances: Int[Tensor, "groups sides"]
    mates: Int[Tensor, "mates sides"]
    mate_of: Int[Tensor, "groups sides"]


class FacetStaticTask(LexiconTask):
    """Training of one seed: the table, and the utterances in all languages.

    Rows that are not trained have norm 1 here; `unseen` scales them where texts are embedded after training.
    """

    def __init__(self, data: PairBags, groups: LanguageGroups, config: FacetStaticConfig, seed: int) -> None:
        super().__init__(data, config, seed)
        self.groups = groups
        self.weights = {"template_contrast": config.template_weight}
        sources = groups.utterances[:, 0]
        self.vectors = projected(data.bags, sources.unique(), sources, derived_seed(seed, "neighbours"))

    def batches(self, epoch: int) -> Sequence[GroupBatch]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return the steps of an epoch: as many passes over the utterances as give each of them in every language."""
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
                if len(batch.utterances) > 1:
                    steps.append(batch)
        return steps

    def _step(
        self, chosen: Int[Tensor, " groups"], sides: Int[Tensor, " sides"], random: torch.Generator
    ) -> GroupBatch:
        utterances = self.groups.utterances[chosen][:, sides]
        is_complete = (utterances >= 0).all(dim=1)
        chosen, utterances = chosen[is_complete], utterances[is_complete]
        if not len(self.groups.mates):
            return GroupBatch(utterances, utterances[:0], utterances)
        drawn = torch.randint(len(self.groups.mates), (len(chosen),), generator=random)
        mates = self.groups.mates[drawn, chosen][:, sides]
        has_mate = (mates >= 0).all(dim=1)
        return GroupBatch(utterances, mates[has_mate], torch.where(has_mate.unsqueeze(1), mates, utterances))

    def loss(self, batch: GroupBatch) -> tuple[Terms, int]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return `meaning_contrast` of translations, `template_contrast` of utterances with mates, and their sum."""
        groups = torch.cat([batch.utterances, batch.mates])
        texts = torch.cat([groups, batch.mate_of])
        distinct, rows_of = texts.mT.unique(return_inverse=True)  # [sides, groups and mates]
        embedded = self.embed(distinct)
        meaning = embedded["meaning"][rows_of[:, : len(groups)]]
        if self.config.candidates == "all_languages":
            terms = {"meaning_contrast": self.one_pool(meaning, groups, self.config.temperature)}
        else:
            others = ((meaning[0], meaning[side], groups[:, [0, side]]) for side in range(1, len(meaning)))
            terms = {"meaning_contrast": self.mean_contrast(others, self.config.temperature)}
        if "template_contrast" not in self.config.without and len(self.groups.mates):
            template, count = embedded["template"], len(batch.utterances)
            sides = (
                (template[rows[:count]], template[rows[len(groups) :]], torch.stack(texts, dim=1))
                for rows, texts in zip(rows_of, zip(batch.utterances.T, batch.mate_of.T, strict=True), strict=True)
            )
            terms["template_contrast"] = self.mean_contrast(sides, self.config.template_temperature)
        return self.with_total(terms), len(batch.utterances)


class FacetStaticTrainer(LexiconTrainer):
    """The trainer of `facet_static`. It computes on the CPU, where a step takes half a second."""

    def tasks(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, data: TrainingData, config: FacetStaticConfig, device: str
    ) -> Callable[[int], FacetStaticTask]:
        bags = pair_bags(data, config.table_rows)
        groups = LanguageGroups.of(data, bags)
        return lambda seed: FacetStaticTask(bags, groups, config, seed)
