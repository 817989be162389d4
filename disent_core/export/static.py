"""Turn a trained `lexicon` or `facet_static` into a static model, which needs neither torch nor disent's tables.

A static model's folder may also have a shipped module, since sentence-transformers' own have no hashed n-grams.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from disent_core.errors import TrainingError, located
from disent_core.export.folder import PROBES
from disent_core.export.saved_folder import write_json
from disent_core.export.shipped_code import COPIED_OF_STATIC, shipped_code
from disent_core.lineage.saved_heads import SavedHead
from disent_core.methods.lexicon_head import TrainedLexicon
from disent_core.methods.modules.hashed_words import HashedNgramTable
from disent_core.methods.modules.word_rows import TABLE_ROWS
from disent_core.methods.spec import METHOD_REFERENCE, learned
from disent_core.static_folder import CARD
from disent_core.static_model import StaticModel
from disent_core.storage.files import atomic_path


def of_table(
    words: HashedNgramTable, parts: Mapping[str, int], table_rows: int = TABLE_ROWS, **options: Any
) -> StaticModel:
    """Return the model of a trained table, whose units are `parts` in order; options are `StaticModel.of_table`'s."""
    known, table = words.known.cpu().numpy(), words.table.detach().float().cpu().numpy()
    return StaticModel.of_table(
        known, table, parts=parts, table_rows=table_rows, seed=words.seed, unseen=words.unseen, **options
    )


def of_head(head: SavedHead, seed: int | None = None, *, bits: int = 8, **description: Any) -> StaticModel:
    """Return the model of a trained `lexicon` or `facet_static`, by default of its first seed.

    A value has 4 or 8 `bits`; `description` has further facts for the card, such as `name`, `licence`, `attribution`,
    `data` and `measured`.
    """
    trained, facts = head.trained, head.description
    if not isinstance(trained, TrainedLexicon):
        raise TrainingError(
            f"{head.method.name} is not a table of words; only lexicon and facet_static become static models"
        )
    seed = next(iter(trained.words)) if seed is None else seed
    if seed not in trained.words:
        raise ValueError(f"the head has no seed {seed}; choose one of {', '.join(map(str, trained.words))}")
    config, has_template = trained.config, "template" in learned(head.method.embeddings, facts)
    names = ("template", "residual") if has_template else ("_1", "_2")  # halves of a meaning, meaningless by themselves
    described: dict[str, Any] = {
        "name": facts["name"],
        "method": facts[METHOD_REFERENCE],
        "trained_on": facts["trained_on"],
        "head": head.content,
        "settings": json.loads(json.dumps(facts["settings"])),
        "seed": seed,
    } | {name: facts[name] for name in ("data", "licence") if facts.get(name)}
    return of_table(
        trained.words[seed],
        dict(zip(names, (config.template_units, config.residual_units), strict=True)),
        config.table_rows,
        bits=bits,
        languages=list(facts["languages"]),
        description=described | description,
    )


USE = """
## With sentence-transformers

Its modules have no hashed words and n-grams, so the folder brings one, `modeling_static.py`, hence the flag.

```python
from sentence_transformers import SentenceTransformer

model = SentenceTransformer("FOLDER", trust_remote_code=True)
model.encode(["wake me up at nine"], task="meaning")
```

`task=` is one of {names}; without it, and in `encode_query` and `encode_document`, it is `meaning`. Of the meaning's
parts `truncate_dim` keeps a share each. The vectors are those of `disent.load("FOLDER")`, to the bit.
"""
_MODULES = [{"idx": 0, "name": "0", "path": "", "type": "modeling_static.StaticWords"}]


def export_static(model: StaticModel, folder: Path, *, licence: str | None = None) -> None:
    """Write a static model as a folder that both disent and sentence-transformers load.

    The folder must not exist yet. `licence` is that of the weights, for the card; None: the one that the model states.
    """
    from sentence_transformers import SentenceTransformer

    from disent_core.export.modeling_static import StaticWords

    if folder.exists():
        raise TrainingError(located(folder, None, "this exists already", "Name a new folder"))
    described = model if licence is None else model.described(licence=licence)
    with atomic_path(folder.resolve()) as temporary:
        described.save(temporary)
        copy = SentenceTransformer(
            modules=[StaticWords.load(str(temporary))], device="cpu", similarity_fn_name="cosine"
        )
        for name in model.names:
            if not np.array_equal(copy.encode(list(PROBES), task=name), model.encode(PROBES, name)):
                raise TrainingError(f"{folder}: the exported {name} would differ from the model's")
        copy.save(str(temporary), create_model_card=False)
        write_json(temporary / "modules.json", _MODULES)
        for name, source in shipped_code(COPIED_OF_STATIC).items():
            (temporary / name).write_text(source, encoding="utf-8")
        use = USE.format(names=", ".join(f"`{name}`" for name in model.names))
        with (temporary / CARD).open("a", encoding="utf-8") as card:
            card.write(use)
