"""Tables of one made-up corpus in two languages, for tests of what heads train on."""

from worlds import utterance

from disent_core.storage.tables import rows_table
from disent_core.targets.aligned_pairs import LanguageTables, aligned_pairs
from disent_core.text import text_key

SPLITS = {"1": "train", "2": "train", "3": "dev", "4": "test"}
RESIDUALS = {"1": "<mask> one", "2": None, "3": "<mask> three", "4": "<mask> four"}


def language(name, order="1234", pool="13", splits=SPLITS):
    """Utterances of one language, in an order of their own."""
    base = {"corpus": "toy", "language": name}
    utterances = [utterance(name, i, f"{name} text {i}", split=splits[i]) for i in order]
    masked = []
    for i in sorted(order, reverse=True):  # in another order than the utterances
        template, residual = f"{name} text <mask>", RESIDUALS[i] and f"{name} {RESIDUALS[i]}"
        template = f"{name} text {i}" if residual is None else template
        masked.append(
            base
            | {"utterance_id": i, "template_text": template, "template_key": text_key(template)}
            | {"residual_text": residual, "residual_key": residual and text_key(residual)}
        )
    negatives = [base | {"utterance_id": i, "max_bleu": 0.0, "nearest_utterance_id": None} for i in pool]
    return LanguageTables(
        rows_table(utterances, "utterances"),
        rows_table(masked, "masked_utterances"),
        rows_table(negatives, "negative_pool"),
    )


def aligned(**changes):
    return aligned_pairs("en-de", language("en"), language("de", **{"order": "4213", "pool": "2"} | changes))
