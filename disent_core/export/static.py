"""Turn a trained `lexicon` or `facet_static` into a static model, which needs neither torch nor disent's tables."""

import json
from collections.abc import Mapping
from typing import Any

from disent_core.errors import TrainingError
from disent_core.lineage.saved_heads import SavedHead
from disent_core.methods.lexicon_head import TrainedLexicon
from disent_core.methods.modules.hashed_words import HashedNgramTable
from disent_core.methods.modules.word_rows import TABLE_ROWS
from disent_core.methods.spec import METHOD_REFERENCE, learned
from disent_core.static_model import StaticModel


def of_table(
    words: HashedNgramTable, parts: Mapping[str, int], table_rows: int = TABLE_ROWS, **options: Any
) -> StaticModel:
    """Return the model of a trained table, whose units are `parts` in order; options as of `StaticModel.of_table`."""
    known, table = words.known.cpu().numpy(), words.table.detach().float().cpu().numpy()
    return StaticModel.of_table(
        known, table, parts=parts, table_rows=table_rows, seed=words.seed, unseen=words.unseen, **options
    )


def of_head(head: SavedHead, seed: int | None = None, *, bits: int = 8, **description: Any) -> StaticModel:
    """Return the model of a table of words, by default of its first seed.

    Args:
        head: a trained `lexicon` or `facet_static`.
        seed: of its training.
        bits: of a value, 4 or 8.
        description: more facts for the card, such as `name`, `licence`, `attribution`, `data` and `measured`.

    Raises:
        TrainingError: if the head reads more than words.
        ValueError: if it has no such seed.
    """
    trained, facts = head.trained, head.description
    if not isinstance(trained, TrainedLexicon):
        raise TrainingError(
            f"{head.method.name} is no table of words; only lexicon and facet_static become static models"
        )
    seed = next(iter(trained.words)) if seed is None else seed
    if seed not in trained.words:
        raise ValueError(f"the head has no seed {seed}; choose one of {', '.join(map(str, trained.words))}")
    config, has_template = trained.config, "template" in learned(head.method.embeddings, facts)
    names = ("template", "residual") if has_template else ("part_1", "part_2")
    described = {
        "name": facts["name"],
        "method": facts[METHOD_REFERENCE],
        "trained_on": facts["trained_on"],
        "head": head.content,
        "settings": json.loads(json.dumps(facts["settings"])),
        "seed": seed,
    }
    return of_table(
        trained.words[seed],
        dict(zip(names, (config.template_units, config.residual_units), strict=True)),
        config.table_rows,
        bits=bits,
        languages=list(facts["languages"]),
        description=described | description,
    )
