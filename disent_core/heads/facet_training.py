"""Train Facet on translations and their parallel mates, and erase the language at the end."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import torch
from jaxtyping import Float, Int
from torch import Tensor

from disent_core.encoders.contract import EncoderFiles
from disent_core.heads.facet import FacetHead, TrainedFacet, embeddings, table_seed
from disent_core.heads.families.mated_pairs import EMBED_BLOCK, MatedBatch, MatedPairsTask, PairBags, pair_bags
from disent_core.heads.families.neighbours import neighbours_together, word_vectors
from disent_core.heads.families.seed_by_seed import SeedBySeedTrainer, SeedTraining
from disent_core.heads.modules.hashed_words import HashedWords
from disent_core.losses import similarity
from disent_core.matmul import set_precision
from disent_core.methods.facet import FacetConfig, FacetMethod
from disent_core.optimisation.optimiser import Optimiser
from disent_core.optimisation.row_adam import RowOptimiser
from disent_core.optimisation.seeds import derived_seed, seeded
from disent_core.optimisation.steps import Terms, TrainingRun, train
from disent_core.training.data import TrainingData
from disent_core.training.needs import SIDES
from disent_core.training.sampling import PairSampler


class FacetTask(MatedPairsTask):
    """Training of one seed: the head, and the pairs."""

    def __init__(self, data: PairBags, sampler: PairSampler, config: FacetConfig, seed: int) -> None:
        super().__init__(data, config, seed)
        self.sampler = sampler
        self.weights = {
            "template_contrast": config.template_weight,
            "residual_repulsion": config.repulsion,
            "reading_contrast": config.reading_weight,
        }
        self.labels = torch.stack([sampler.data.splits["train"].language[side] for side in SIDES], dim=1)
        words = None
        if config.reads_words:
            width = config.template_words + config.residual_words
            words = HashedWords.of_texts(
                data.bags.take(data.trained), width, table_seed(seed), at_least=config.at_least
            )
        self.head = FacetHead(sampler.data.dim, len(sampler.data.languages), config, words)
        set_precision(self.head, config.precision)
        of_words = {} if words is None else {"words": RowOptimiser(words.table, config.optimiser_of_words)}
        others = [value for name, value in self.head.named_parameters() if name != "words.table"]
        self.optimisers = {"main": Optimiser(others, config.optimiser), **of_words}
        self.vectors = word_vectors(data, derived_seed(seed, "neighbours")) if config.neighbours > 1 else None

    def order(self, random: torch.Generator) -> Int[Tensor, " pairs"]:
        """Return the training pairs in the order of an epoch, with neighbours together."""
        if self.vectors is None:
            return super().order(random)
        return neighbours_together(self.vectors, self.config.neighbours, random)

    def embed(self, texts: Int[Tensor, " texts"]) -> dict[str, Float[Tensor, "texts _"]]:
        """Return `meaning`, `template` and `residual`."""
        return embeddings(self.parts(texts))

    def parts(self, texts: Int[Tensor, " texts"]) -> list[Float[Tensor, "texts _"]]:
        """Return the four parts of the meaning."""
        return self.head.parts(self.sampler.text(self.data.rows[texts]), self.data.bags.take(texts))

    def terms(self, embedded: Mapping[str, Float[Tensor, "sides pairs_and_mates _"]], batch: MatedBatch) -> Terms:
        """Return also `language_identification` of the pairs, in nats, `reading_contrast` and `residual_repulsion`.

        `reading_contrast` is the weighted sum of both contrasts of either reading alone. `residual_repulsion` is the
        mean over texts with mates of max(0, cosine of both residuals): all that they share is the template.
        """
        count = len(batch.chosen)
        vectors = self.sampler.data.vectors.take(self.data.rows[batch.pairs[:count].flatten()])
        labels = self.labels[batch.chosen].flatten()
        terms = {
            **super().terms(embedded, batch),
            "language_identification": similarity.cross_entropy(self.head.language(vectors), labels).mean(),
        }
        if self.config.reading_weight and self.config.reads_states and self.config.reads_words:
            alone = [super(FacetTask, self).terms(reading, batch) for reading in self.readings(embedded)]
            weighted = [value * self.weights.get(name, 1.0) for one in alone for name, value in one.items()]
            terms["reading_contrast"] = torch.stack(weighted).sum()
        has_mate = batch.mate_of >= count
        if self.config.repulsion and has_mate.any():
            residual = embedded["residual"]
            shared = (residual[:, :count][:, has_mate] * residual[:, batch.mate_of[has_mate]]).sum(dim=-1)
            terms["residual_repulsion"] = shared.clamp_min(0).mean()
        return terms

    def readings(self, embedded: Mapping[str, Float[Tensor, "*texts _"]]) -> list[dict[str, Float[Tensor, "*texts _"]]]:
        """Return `meaning` and `template` off states alone and off words alone, of unit norm."""
        config = self.config
        templates = [config.template_units, config.template_words]
        meanings = [config.template_units + config.residual_units, config.template_words + config.residual_words]
        sides = zip(
            embedded["meaning"].split(meanings, dim=-1), embedded["template"].split(templates, dim=-1), strict=True
        )
        return [{"meaning": meaning * 2**0.5, "template": template * 2**0.5} for meaning, template in sides]

    def step(self, batch: MatedBatch) -> tuple[Terms, int]:
        """Take a step of both optimisers on one loss."""
        terms, count = self.loss(batch)
        optimisers = self.optimisers.values()
        for optimiser in optimisers:
            optimiser.adam.zero_grad(set_to_none=True)
        terms["total"].backward(inputs=[one for optimiser in optimisers for one in optimiser.parameters])
        for optimiser in optimisers:
            optimiser.adam.step()
        return terms, count

    @torch.no_grad()
    def erase_language(self) -> None:
        """Fit the erasers of the language to the texts of all training pairs."""
        blocks = [self.parts(block) for block in self.data.pairs["train"].flatten().split(EMBED_BLOCK)]
        self.head.erase_language([torch.cat(part) for part in zip(*blocks, strict=True)], self.labels.flatten())


class FacetTrainer(SeedBySeedTrainer[FacetMethod]):
    """The trainer of Facet. It computes on the CPU, where a seed takes a minute and a half on MASSIVE."""

    def prepare(self, data: TrainingData, config: FacetConfig, device: str) -> Callable[[TrainingRun], SeedTraining]:
        """Read the texts once for all seeds."""
        if "mates" in config.without:
            data = replace(data, mates={})
        pairs, sampler = pair_bags(data), PairSampler(data, states=config.reads_states)

        def start(run: TrainingRun) -> SeedTraining:
            with seeded(derived_seed(run.seed, "start")):
                task = FacetTask(pairs, sampler, config, run.seed)
            seed_run = replace(run, epochs=config.epochs, checkpoint_seconds=config.checkpoint_seconds)
            return SeedTraining(train(task, seed_run), lambda: _weights(task), {})

        return start

    def load(self, path: Path, config: FacetConfig, device: str, encoder: EncoderFiles | None = None) -> TrainedFacet:
        """Read what `save` wrote; a seed's weights are read when it first embeds."""
        return TrainedFacet(path, config)


@torch.no_grad()
def _weights(task: FacetTask) -> dict[str, Tensor]:
    """Erase the language and return the weights; half the precision of the table changes no ranking that we have seen.

    The erasers are fitted to what will be embedded: with the rounded table, in float32.
    """
    set_precision(task.head, "float32")
    words, kept = task.head.words, {}
    if words is not None:
        kept = {"words.table": words.table.half()}
        words.table.copy_(kept["words.table"])
    if "erasure" not in task.config.without:
        task.erase_language()
    return {**task.head.state_dict(), **kept}
