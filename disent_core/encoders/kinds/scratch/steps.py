"""Pretrain an encoder on the training texts of all corpora, once."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from disent_core.encoders.contract import EncoderInputs, EncoderReport
from disent_core.encoders.kinds.scratch import ScratchConfig
from disent_core.storage.results import none_if_damaged, open_result, read_result, sole_maker, write_text_result
from disent_core.storage.tables import fingerprint
from disent_core.storage.text_columns import PairColumn, TextColumn

if TYPE_CHECKING:
    import polars as pl


def pretrain_once(config: ScratchConfig, inputs: EncoderInputs) -> EncoderReport:
    """Pretrain and freeze the model, unless one of these settings exists.

    A frozen encoder does not change when texts change later: delete its folder to pretrain it again.
    """
    folder = inputs.folder(config.name)
    with sole_maker(folder):
        figures = _figures_of_existing(config, folder) or _pretrain(config, inputs, folder)
    return EncoderReport(config.fingerprint(folder), figures["pretraining_steps"] == 0, figures)


def _figures_of_existing(config: ScratchConfig, folder: Path) -> dict[str, int | float] | None:
    record = none_if_damaged(lambda: read_result(_record(folder)))
    if record is None or open_result(folder) is None:
        return None
    stored = json.loads(record)
    figures = {"pretraining_steps": 0, "loss": stored["loss"], "texts": stored["texts"]}
    return figures if stored["config"] == fingerprint(config.identity()) else None


def _pretrain(config: ScratchConfig, inputs: EncoderInputs, folder: Path) -> dict[str, int | float]:
    from disent_core.encoders.kinds.scratch.pretraining import final_loss, pretrain

    texts = _training_texts(inputs)
    pairs = _training_pairs(inputs) if config.translation else ()
    steps = replayed = 0
    for epoch in pretrain(texts, config, folder, inputs.device, pairs=pairs):
        steps = epoch.steps
        replayed = steps if epoch.is_replayed else replayed
    loss = final_loss(folder)
    record = {"config": fingerprint(config.identity()), "loss": loss, "texts": len(texts)}
    write_text_result(_record(folder), json.dumps(record) + "\n")
    return {"pretraining_steps": steps - replayed, "loss": loss, "texts": len(texts)}


def _record(folder: Path) -> Path:
    return folder.with_suffix(".json")


def _training_texts(inputs: EncoderInputs) -> TextColumn:
    """Return the distinct training texts of all languages, in a fixed order."""
    import polars as pl

    def every_text() -> Iterator["pl.Series"]:
        config = inputs.config
        yield pl.Series(dtype=pl.String)
        for language in config.utterance_languages:
            for corpus in config.corpora_of(language, training=True):
                yield _training_rows(inputs, "utterances", corpus.name, language)["text"]
        for corpus in config.corpora:
            for pair in corpus.pairs if corpus.trains else ():
                rows = _training_rows(inputs, "sentence_pairs", corpus.name, pair)
                yield rows.select(pl.concat_list("source", "target").explode()).to_series()

    return TextColumn.whole(pl.concat(every_text()).unique(maintain_order=True).to_arrow())


def _training_pairs(inputs: EncoderInputs) -> PairColumn:
    """Return the training translations of every language pair, in a fixed order."""
    import polars as pl

    config, sides = inputs.config, ["source", "target"]
    pairs = [pl.DataFrame(schema=dict.fromkeys(sides, pl.String))]
    for left, right in dict.fromkeys(languages for pairs in config.pair_languages.values() for languages in pairs):
        for corpus in config.corpora_of_pair(left, right, training=True):
            source, target = (_training_rows(inputs, "utterances", corpus.name, side) for side in (left, right))
            rows = source.join(target, on="utterance_id", maintain_order="left")
            pairs.append(rows.select(source="text", target="text_right"))
        for corpus, name in config.training_pairs(left, right):
            pairs.append(_training_rows(inputs, "sentence_pairs", corpus.name, name))
    every_pair = pl.concat(pairs)
    return PairColumn(*(TextColumn.whole(every_pair[side].to_arrow()) for side in sides))


def _training_rows(inputs: EncoderInputs, table: str, corpus: str, partition: str) -> "pl.DataFrame":
    import polars as pl

    return pl.DataFrame(inputs.texts(table, corpus, partition, ["train"]))
