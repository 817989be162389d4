"""Stage 1 of TWOSL: fine-tune the encoder so that spans of one slot type are close."""

from collections.abc import Iterator

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from disent_core.encoders.fine_tunable import TunableEncoder
from disent_core.heads.twosl.features import distinct, joined
from disent_core.heads.twosl.span_pairs import SpanPairs
from disent_core.heads.twosl.spans import SpanItems
from disent_core.losses.contrastive import span_contrast
from disent_core.methods.twosl import TwoSlConfig
from disent_core.optimisation.steps import EpochReport, ExamplesTask, TrainingRun, train


def tune_encoder(
    encoder: TunableEncoder, items: SpanItems, pairs: SpanPairs, config: TwoSlConfig, run: TrainingRun
) -> Iterator[EpochReport]:
    """Train all weights of the encoder on the pairs; see `disent_core.optimisation.steps.train`.

    A text that occurs twice in a batch is encoded twice, as in sentence-transformers.
    """
    masked, spans = distinct(items.masked), distinct(items.texts)
    masked_tokens, span_tokens = encoder.prepare(masked.texts), encoder.prepare(spans.texts)
    masked_rows, span_rows = torch.from_numpy(masked.rows), torch.from_numpy(spans.rows)
    is_same = torch.from_numpy(pairs.is_same).to(encoder.device)
    first, second = torch.from_numpy(pairs.first), torch.from_numpy(pairs.second)

    def encode(chosen: Int[Tensor, " chosen"]) -> Float[Tensor, "chosen features"]:
        vectors = encoder(masked_tokens, masked_rows[chosen]), encoder(span_tokens, span_rows[chosen])
        return joined(*vectors, config.concat_norm)

    def loss(rows: Int[Tensor, " rows"]) -> Float[Tensor, " rows"]:
        first_vectors, second_vectors = encode(torch.cat([first[rows], second[rows]])).chunk(2)
        return span_contrast(
            1 - F.cosine_similarity(first_vectors, second_vectors),
            is_same[rows.to(is_same.device)],
            margin=config.margin,
            form=config.loss,
            hard=config.hard,
            lone_pair=config.lone_pair,
        )

    # The sum over a batch is minimised, as in sentence-transformers.
    task = ExamplesTask(
        encoder, loss, len(pairs), config.contrastive_optimiser, batch_size=config.batch_size, run=run, is_summed=True
    )
    return train(task, run)
