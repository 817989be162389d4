"""Define the schema of every table: columns, types and nullability. docs/path.md gives grain, inputs and units."""

from collections.abc import Mapping

import pyarrow as pa


def _column(name: str, kind: pa.DataType, *, nullable: bool = False) -> pa.Field:
    return pa.field(name, kind, nullable=nullable)


def _schema(*fields: pa.Field) -> pa.Schema:
    return pa.schema(list(fields))


_TEXT, _TEXTS = pa.string(), pa.list_(pa.string())
_UTTERANCE = (_column("corpus", _TEXT), _column("language", _TEXT))
_REPLACED_SLOT = pa.struct([("slot", _TEXT), ("old", _TEXT), ("new", _TEXT)])
_REPLACED_SLOT_OF_PAIR = pa.struct(
    [("slot", _TEXT), *((f"{side}_{what}", _TEXT) for side in ("source", "target") for what in ("old", "new"))]
)
_REPLACED_WORD = pa.struct([("old", _TEXT), ("new", _TEXT)])

SUBJECT = ("task", "dataset", "method", "encoder", "trained_on", "evaluated_on", "embedding", "metric")
"""Columns that say what a number measures."""

ASSET_STATE = ("warehouse", "asset_state", "all")
"""Stage, name and partition of the table of states; no asset makes it."""

STEP_COSTS = ("warehouse", "step_costs", "all")
"""Stage, name and partition of the table of costs, to which every step adds its row."""

_TEMPLATE_PAIRS = _schema(
    *_UTTERANCE,
    _column("split", _TEXT),
    _column("source_utterance_id", _TEXT),
    _column("target_index", pa.int32()),
    _column("source_text", _TEXT),
    _column("target_text", _TEXT),
    _column("replaced_slots", pa.list_(_REPLACED_SLOT)),
)

SCHEMAS: Mapping[str, pa.Schema] = {
    # one utterance of one corpus and language
    "utterances": _schema(
        *_UTTERANCE,
        _column("utterance_id", _TEXT),
        _column("split", _TEXT),
        _column("domain", _TEXT, nullable=True),
        _column("intent", _TEXT, nullable=True),
        _column("text", _TEXT),
        _column("tokens", _TEXTS),
        _column("slot_tags", _TEXTS),
        _column("text_key", _TEXT),
    ),
    # one pair of sentences of one corpus
    "sentence_pairs": _schema(
        _column("corpus", _TEXT),
        _column("pair", _TEXT),
        _column("pair_id", _TEXT),
        _column("split", _TEXT),
        _column("source", _TEXT),
        _column("target", _TEXT),
        _column("score", pa.float64(), nullable=True),
        _column("mean_score", pa.float64(), nullable=True),
        _column("source_key", _TEXT),
        _column("target_key", _TEXT),
    ),
    # one utterance in the pool
    "negative_pool": _schema(
        *_UTTERANCE,
        _column("utterance_id", _TEXT),
        _column("max_bleu", pa.float64()),
        _column("nearest_utterance_id", _TEXT, nullable=True),
    ),
    # one utterance
    "masked_utterances": _schema(
        *_UTTERANCE,
        _column("utterance_id", _TEXT),
        _column("template_text", _TEXT),
        _column("residual_text", _TEXT, nullable=True),
        _column("template_key", _TEXT),
        _column("residual_key", _TEXT, nullable=True),
    ),
    # one generated target
    "template_pairs": _TEMPLATE_PAIRS,
    "training_template_pairs": _TEMPLATE_PAIRS,
    # one translation pair with other slot values
    "parallel_mates": _schema(
        _column("corpus", _TEXT),
        _column("pair", _TEXT),
        _column("split", _TEXT),
        _column("utterance_id", _TEXT),
        _column("mate_index", pa.int32()),
        _column("source_language", _TEXT),
        _column("target_language", _TEXT),
        _column("source_text", _TEXT),
        _column("target_text", _TEXT),
        _column("replaced_slots", pa.list_(_REPLACED_SLOT_OF_PAIR)),
    ),
    # one sentence of a pair, some of its words replaced by translations
    "code_switched_pairs": _schema(
        _column("corpus", _TEXT),
        _column("pair", _TEXT),
        _column("pair_id", _TEXT),
        _column("split", _TEXT),
        _column("switched_language", _TEXT),
        _column("switched", _TEXT),
        _column("original_language", _TEXT),
        _column("original", _TEXT),
        _column("words", pa.int32()),
        _column("replaced_words", pa.list_(_REPLACED_WORD)),
    ),
    # one utterance that a language pair shares, with the text keys of everything a head trains on
    "aligned_pairs": _schema(
        _column("corpus", _TEXT),
        _column("pair", _TEXT),
        _column("utterance_id", _TEXT),
        _column("split", _TEXT),
        *(
            _column(f"{side}_{what}", kind, nullable=nullable)
            for side in ("source", "target")
            for what, kind, nullable in (
                ("language", _TEXT, False),
                ("key", _TEXT, False),
                ("template_key", _TEXT, True),
                ("residual_key", _TEXT, True),
                ("is_negative", pa.bool_(), False),
            )
        ),
    ),
    # one term of one epoch of one seed
    "training_curve": _schema(
        _column("method", _TEXT),
        _column("encoder", _TEXT),
        _column("trained_on", _TEXT),
        _column("seed", pa.int64()),
        _column("epoch", pa.int32()),
        _column("split", _TEXT),
        _column("term", _TEXT),
        _column("value", pa.float64()),
        _column("is_best", pa.bool_()),
    ),
    # one head
    "training_costs": _schema(
        *(_column(name, _TEXT) for name in ("method", "encoder", "trained_on")),
        _column("seconds", pa.float64()),
        _column("processor_seconds", pa.float64(), nullable=True),
        _column("machine", _TEXT),
    ),
    # one number
    "metrics": _schema(
        *(_column(name, _TEXT) for name in SUBJECT),
        _column("value", pa.float64()),
        _column("ci_low", pa.float64(), nullable=True),
        _column("ci_high", pa.float64(), nullable=True),
        _column("n", pa.int64()),
        _column("seed", pa.int64(), nullable=True),
        _column("settings", _TEXT),
        _column("fingerprint", _TEXT),
        _column("created_at", pa.timestamp("us", tz="UTC")),
    ),
    # one number after a refresh that made it, changed it, made it again or found it gone
    "metric_history": _schema(
        _column("refresh", pa.int64()),
        _column("event", _TEXT),
        *(_column(name, _TEXT) for name in SUBJECT),
        _column("seed", pa.int64(), nullable=True),
        _column("problem", _TEXT),
        _column("settings", _TEXT),
        *(_column(name, pa.float64(), nullable=True) for name in ("value", "ci_low", "ci_high")),
        _column("n", pa.int64(), nullable=True),
        *(_column(name, _TEXT, nullable=True) for name in ("fingerprint", "code", "data", "weights", "vectors")),
        _column("recorded_at", pa.timestamp("us", tz="UTC")),
        _column("began_at", pa.timestamp("us", tz="UTC"), nullable=True),
        *(_column(name, _TEXT) for name in ("run_id", "config", "disent_version")),
    ),
    # one number with the items that it is the mean of; paired tests read it
    "outcomes": _schema(
        *(_column(name, _TEXT) for name in SUBJECT),
        _column("seed", pa.int64(), nullable=True),
        _column("settings", _TEXT),
        _column("columns", pa.int32()),
        _column("items", pa.list_(pa.float32())),
    ),
    # two methods on one problem
    "comparisons": _schema(
        *(_column(name, _TEXT) for name in ("task", "dataset", "encoder", "evaluated_on", "metric", "settings")),
        *(_column(f"{name}_{side}", _TEXT) for side in ("a", "b") for name in ("method", "trained_on", "embedding")),
        *(_column(name, pa.float64()) for name in ("value_a", "value_b", "difference")),
        *(_column(name, pa.float64(), nullable=True) for name in ("ci_low", "ci_high")),
        _column("n", pa.int64()),
        _column("test", _TEXT),
        _column("p_value", pa.float64()),
        _column("p_holm", pa.float64()),
        _column("fingerprint", _TEXT),
        _column("created_at", pa.timestamp("us", tz="UTC")),
    ),
    # one partition of an asset
    "asset_state": _schema(
        _column("asset", _TEXT),
        _column("partition", _TEXT, nullable=True),
        _column("stage", _TEXT),
        *(_column(name, _TEXT, nullable=True) for name in ("encoder", "method")),
        _column("state", _TEXT),
        _column("why", _TEXT, nullable=True),
        _column("waits", pa.bool_()),
        *(_column(name, pa.timestamp("us", tz="UTC")) for name in ("since", "recorded_at")),
    ),
    # one step on one partition, when it last made something
    "step_costs": _schema(
        _column("asset", _TEXT),
        _column("partition", _TEXT, nullable=True),
        _column("stage", _TEXT),
        *(_column(name, _TEXT, nullable=True) for name in ("encoder", "method")),
        _column("made_at", pa.timestamp("us", tz="UTC")),
        *(_column(name, pa.float64()) for name in ("seconds", "processor_seconds")),
        *(_column(name, pa.int64(), nullable=True) for name in ("peak_memory", "rows", "texts", "steps")),
        _column("machine", _TEXT),
    ),
    # one number in a result file of mteb
    "mteb_results": _schema(
        _column("source", _TEXT),
        *(_column(name, _TEXT) for name in SUBJECT),
        _column("value", pa.float64()),
        _column("seed", pa.int64(), nullable=True),
        *(_column(name, _TEXT) for name in ("mteb_task", "mteb_metric")),
        _column("is_same", pa.bool_()),
        *(_column(name, _TEXT) for name in ("split", "model", "revision", "experiment", "settings")),
        _column("measured_at", pa.timestamp("us", tz="UTC"), nullable=True),
    ),
    # one method of the configuration
    "configured_methods": _schema(
        *(_column(name, _TEXT) for name in ("method", "base_method", "settings")),
        _column("may_stop_early", pa.bool_()),
    ),
    # one encoder of the configuration
    "encoders": _schema(
        *(_column(name, _TEXT) for name in ("encoder", "kind", "settings")),
        _column("encoder_saw", _TEXT, nullable=True),
    ),
    # one embedding by which a task ranks methods; of those that a method has, the one of lowest preference counts
    "scored_embeddings": _schema(
        _column("task", _TEXT),
        _column("embedding", _TEXT),
        _column("preference", pa.int64()),
        _column("lower_is_better", pa.bool_()),
    ),
    # one candidate in the ranking of one query
    "rankings": _schema(
        *(
            _column(name, _TEXT)
            for name in ("task", "dataset", "method", "encoder", "trained_on", "evaluated_on", "embedding")
        ),
        _column("seed", pa.int64(), nullable=True),
        _column("query_id", _TEXT),
        _column("rank", pa.int32()),
        _column("candidate_id", _TEXT),
        _column("score", pa.float32()),
        _column("is_gold", pa.bool_()),
    ),
}
"""Schema of each table by its name. docs/path.md gives grain, inputs and units."""


def vectors_schema(dim: int, dtype: str) -> pa.Schema:
    """Schema of `sentence_vectors`: one distinct text per encoder and language."""
    return _schema(_column("text_key", _TEXT), _column("vector", pa.list_(_FLOATS[dtype], dim)))


def states_schema(dim: int, dtype: str) -> pa.Schema:
    """Schema of `token_states`: one distinct text per encoder and language; padding is never stored."""
    return _schema(_column("text_key", _TEXT), _column("states", pa.list_(pa.list_(_FLOATS[dtype], dim))))


_FLOATS = {"float16": pa.float16(), "float32": pa.float32()}
