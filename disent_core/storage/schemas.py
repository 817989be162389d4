"""Define the schema of every table: columns, types and nullability. docs/path.md has grain, inputs and units."""

from collections.abc import Mapping

import pyarrow as pa

SUBJECT = ("task", "dataset", "method", "encoder", "trained_on", "evaluated_on", "embedding", "metric")
"""Columns that identify what a number measures."""

ASSET_STATE = ("warehouse", "asset_state", "all")  # stage, name and partition of the table of states; no asset makes it

STEP_COSTS = ("warehouse", "step_costs", "all")
"""Stage, name and partition of the table of step costs."""

_TEXT = pa.string()
_TYPES: Mapping[str, pa.DataType] = {
    "": _TEXT,
    "texts": pa.list_(_TEXT),
    "int8": pa.int8(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float16": pa.float16(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "floats": pa.list_(pa.float32()),
    "bool": pa.bool_(),
    "time": pa.timestamp("us", tz="UTC"),
    "replaced_slots": pa.list_(pa.struct([("slot", _TEXT), ("old", _TEXT), ("new", _TEXT)])),
    "replaced_slots_of_pair": pa.list_(
        pa.struct([(name, _TEXT) for name in ("slot", "source_old", "source_new", "target_old", "target_new")])
    ),
    "replaced_words": pa.list_(pa.struct([("old", _TEXT), ("new", _TEXT)])),
}


def schema(columns: str) -> pa.Schema:
    """Parse `NAME TYPE, NAME TYPE?, ...`; a column without a type is text, and `?` allows nulls."""
    return pa.schema([_field(column) for column in columns.split(", ")])


def _field(column: str) -> pa.Field:
    name, _, kind = column.removesuffix("?").partition(" ")
    return pa.field(name, _TYPES[kind], nullable=column.endswith("?"))


_SUBJECT = ", ".join(SUBJECT)
_TEMPLATE_PAIRS = schema(
    "corpus, language, split, source_utterance_id, target_index int32, source_text, target_text, "
    "replaced_slots replaced_slots"
)

SCHEMAS: Mapping[str, pa.Schema] = {
    # one utterance of one corpus and language
    "utterances": schema(
        "corpus, language, utterance_id, split, domain?, intent?, text, tokens texts, slot_tags texts, text_key"
    ),
    # one pair of sentences of one corpus
    "sentence_pairs": schema(
        "corpus, pair, pair_id, split, source, target, score float64?, mean_score float64?, source_key, target_key"
    ),
    # one utterance in the pool
    "negative_pool": schema("corpus, language, utterance_id, max_bleu float64, nearest_utterance_id?"),
    # one utterance
    "masked_utterances": schema(
        "corpus, language, utterance_id, template_text, residual_text?, template_key, residual_key?"
    ),
    # one generated target
    "template_pairs": _TEMPLATE_PAIRS,
    "training_template_pairs": _TEMPLATE_PAIRS,
    # one translation pair with other slot values
    "parallel_mates": schema(
        "corpus, pair, split, utterance_id, mate_index int32, source_language, target_language, source_text, "
        "target_text, replaced_slots replaced_slots_of_pair"
    ),
    # one sentence of a pair, some of its words replaced by translations
    "code_switched_pairs": schema(
        "corpus, pair, pair_id, split, switched_language, switched, original_language, original, words int32, "
        "replaced_words replaced_words"
    ),
    # one utterance that a language pair shares, with the text keys of everything a head trains on
    "aligned_pairs": schema(
        "corpus, pair, utterance_id, split, source_language, source_key, source_template_key?, "
        "source_residual_key?, source_is_negative bool, target_language, target_key, target_template_key?, "
        "target_residual_key?, target_is_negative bool"
    ),
    # one term of one epoch of one seed
    "training_curve": schema(
        "method, encoder, trained_on, seed int64, epoch int32, split, term, value float64, is_best bool"
    ),
    # one head
    "training_costs": schema("method, encoder, trained_on, seconds float64, processor_seconds float64?, machine"),
    # one number
    "metrics": schema(
        f"{_SUBJECT}, value float64, "
        "ci_low float64?, ci_high float64?, n int64, seed int64?, settings, fingerprint, created_at time"
    ),
    # one number after a refresh that made, changed, remade or dropped it
    "metric_history": schema(
        f"refresh int64, event, {_SUBJECT}, "
        "seed int64?, problem, settings, value float64?, ci_low float64?, ci_high float64?, n int64?, fingerprint?, "
        "code?, data?, weights?, vectors?, difference_low float64?, difference_high float64?, p_value float64?, "
        "p_holm float64?, test?, recorded_at time, began_at time?, run_id, config, disent_version"
    ),
    # one number with the items it is the mean of, read by paired tests
    "outcomes": schema(f"{_SUBJECT}, seed int64?, settings, columns int32, items floats"),
    # two methods on one problem
    "comparisons": schema(
        "task, dataset, encoder, evaluated_on, metric, settings, method_a, trained_on_a, embedding_a, method_b, "
        "trained_on_b, embedding_b, value_a float64, value_b float64, difference float64, ci_low float64?, "
        "ci_high float64?, n int64, test, p_value float64, p_holm float64, fingerprint, created_at time"
    ),
    # one trial of a search of settings
    "settings_search": schema(
        "encoder, method, trial int64, name, settings, translation float64?, template float64?, score float64, "
        "is_chosen bool, fingerprint, created_at time"
    ),
    # one partition of an asset
    "asset_state": schema(
        "asset, partition?, stage, encoder?, method?, state, why?, waits bool, since time, recorded_at time"
    ),
    # one step on one partition, when it last made something
    "step_costs": schema(
        "asset, partition?, stage, encoder?, method?, made_at time, seconds float64, processor_seconds float64, "
        "peak_memory int64?, rows int64?, texts int64?, steps int64?, machine"
    ),
    # one number in a result file of mteb
    "mteb_results": schema(
        f"source, {_SUBJECT}, value float64, "
        "seed int64?, mteb_task, mteb_metric, is_same bool, split, model, revision, experiment, settings, "
        "measured_at time?"
    ),
    # one method of the configuration
    "configured_methods": schema("method, base_method, settings, may_stop_early bool"),
    # one training set of the configuration whose name does not list its pairs
    "training_sets": schema("training_set, pairs texts, languages texts"),
    # one encoder of the configuration
    "encoders": schema("encoder, kind, settings, encoder_saw?"),
    # one column of a relation of the warehouse
    "catalogue": schema("relation, kind, grain?, column_name, place int32, data_type, role, is_key bool, description?"),
    # one embedding by which a task ranks methods; of those that a method has, the one of lowest preference counts
    "scored_embeddings": schema("task, embedding, preference int64, lower_is_better bool"),
    # one candidate in the ranking of one query
    "rankings": schema(
        "task, dataset, method, encoder, trained_on, evaluated_on, embedding, seed int64?, query_id, rank int32, "
        "candidate_id, score float32, is_gold bool"
    ),
}
"""Schema of each table by name; comments describe a row."""


def vectors_schema(dim: int, dtype: str) -> pa.Schema:
    """Schema of `sentence_vectors`: one distinct text per encoder and language."""
    vector = pa.list_(_TYPES[dtype], dim)
    return pa.schema([_field("text_key"), pa.field("vector", vector, nullable=False)])


def states_schema(width: int, dtype: str) -> pa.Schema:
    """Schema of `token_states`: one distinct text per encoder and language; padding is never stored."""
    states = pa.list_(pa.list_(_TYPES[dtype], width))
    return pa.schema([_field("text_key"), pa.field("states", states, nullable=False)])
