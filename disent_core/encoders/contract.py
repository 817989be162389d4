"""Define an encoder (texts in, sentence vectors and token states out) and what every kind of encoder declares."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa
from annotated_types import Ge, Le
from jaxtyping import Float, Int

from disent_core.errors import EncoderError, located
from disent_core.settings import DISTINCT, NOT_EMPTY, Settings
from disent_core.storage.text_columns import TextColumn

FloatName = Literal["float16", "float32"]
StatesName = Literal["float16", "float32", "int8"]
Device = Literal["auto", "cpu", "cuda"]
Pooling = Literal["cls", "mean", "pooler", "cls_dense_norm"]
"""How token states become a sentence vector, see `kinds.huggingface.HuggingFaceConfig`."""
Layer = Annotated[int, Ge(-1_000), Le(1_000)]
Layers = Layer | Annotated[tuple[Layer, ...], DISTINCT, NOT_EMPTY]
"""The layer whose states are read, or several, concatenated; see `kinds.huggingface.HuggingFaceConfig`."""
IN_DOMAIN = "in-domain"  # `encoder_saw` of encoders trained on training splits of the measured corpora
PACKAGE_PREFIX = "package:"  # prefix of the path of a folder inside an installed Python package


def listed_layers(layer: Layers) -> tuple[int, ...]:
    return (layer,) if isinstance(layer, int) else layer


def missing_layers(layer: Layers, count: int) -> list[int]:
    """Return the numbers of the layers that a model of `count` layers does not have."""
    return [number for number in listed_layers(layer) if not -count - 1 <= number <= count]


@dataclass(frozen=True)
class EncodedBatch:
    """Some of the texts, in the order in which the encoder processes them.

    `indices` are positions in the sequence given to `encode`. `states` holds the concatenated token states of these
    texts, `lengths[i]` rows for text i, with special tokens but without padding and hidden subwords. `truncated` counts
    texts longer than the encoder reads.
    """

    indices: Int[np.ndarray, " texts"]
    vectors: Float[np.ndarray, "texts dim"]
    states: Float[np.ndarray, "tokens dim"] | None
    lengths: Int[np.ndarray, " texts"]
    truncated: int = 0


@dataclass(frozen=True)
class EncoderFiles:
    """A frozen encoder on disk, for a method that fine-tunes it: its model, and how states become a sentence vector.

    `prefix` is put before every text, but not before the words that a tagger reads.
    """

    folder: Path
    pooling: Pooling
    layer: Layers
    max_length: int
    fingerprint: str
    prefix: str = ""


@runtime_checkable
class Encoder(Protocol):
    """A frozen encoder.

    `fingerprint` covers everything that its output depends on: weights, tokeniser, layer, pooling, length, data types
    and code. `vector_dtype` and `states_dtype` are the types in which vectors and states are stored.
    """

    name: str
    dim: int
    fingerprint: str
    vector_dtype: FloatName
    states_dtype: StatesName

    def encode(self, texts: Sequence[str], *, states: bool) -> Iterator[EncodedBatch]:
        """Encode every text once, in batches; token states only if `states` is true.

        Raise EncoderError for a text that can't be encoded, or whose vector is not finite.
        """
        ...


# --- kinds ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class EncoderConfig(Settings):
    """The settings of an encoder, and all that the library asks of its kind; a kind is a subclass.

    A kind defines `fingerprint` and `load`. The rest has defaults, which fit an encoder that is made elsewhere. In the
    methods `folder` is where the lineage puts the model if `steps` make one, and `config` is the whole configuration,
    a `config.model.Config`. What is not there, or can't be loaded, is an EncoderError. A path that is relative belongs
    in a field `path`.

    Attributes:
        lacks: needs of methods (`training.needs.Need`) that this kind cannot serve, each with its name in messages.
        reads_one_language: whether `load` reads the files of one language, so that each language has an encoder of its
            own, which one process loads. Otherwise the shards of a step load the encoder once for each worker.
        earlier_defaults: values of the settings that heads lack which were saved before the settings existed.
        name: name of the encoder in tables and metrics.
    """

    lacks: ClassVar[Mapping[str, str]] = {}
    reads_one_language: ClassVar[bool] = False
    earlier_defaults: ClassVar[Mapping[str, Any]] = {}

    name: str

    def fingerprint(self, folder: Path) -> str:
        """Return the fingerprint of the loaded encoder, computed from its files alone."""
        raise NotImplementedError

    def load(self, folder: Path, language: str, device: Device) -> Encoder:
        """Load the encoder, ready to encode texts of this language (empty if unknown)."""
        raise NotImplementedError

    def files(self, folder: Path) -> EncoderFiles:
        """Return the model on disk, for a method that fine-tunes it; EncoderError if the encoder has none."""
        raise EncoderError(f"encoder {self.name!r} has no model to tune. Leave out methods that tune the encoder")

    def saved(self, folder: Path) -> "EncoderConfig":
        """Return the settings that open the encoder without the lineage, for a saved head."""
        return self

    def known_keys(self, language: str) -> pa.StringArray | None:
        """Return the keys of the texts that already have a vector; None if the encoder can encode any text."""
        return None

    def resolved(self, folder: Path) -> "EncoderConfig":
        """Return the settings with `path`, which is relative to the folder, made absolute."""
        path: str | None = getattr(self, "path", None)
        if path is None or path.startswith(PACKAGE_PREFIX):
            return self
        return replace(self, path=str((folder / Path(path).expanduser()).resolve()))  # pyright: ignore[reportCallIssue]

    def problems(self, config: Any) -> Iterator[tuple[str, str]]:
        """Yield a key and what is wrong with it in this configuration."""
        return iter(())

    def has_seen(self, config: Any) -> str | None:
        """Return what the encoder was trained on, for the column `encoder_saw`; None if unknown.

        "bitext" means translations, `IN_DOMAIN` training splits of the measured utterances.
        """
        return getattr(self, "saw", None)

    def is_base_of_heads(self, config: Any) -> bool:
        """Return whether heads may be trained on it: not if it has learned the same translations as they would."""
        return self.has_seen(config) != IN_DOMAIN

    def steps(self, config: Any) -> Sequence["EncoderStep"]:
        """Return the steps of the lineage that make the encoder, in order; the last one, `encoder`, fills `folder`."""
        return ()


# --- encoders that the lineage makes ----------------------------------------------------------------------


@runtime_checkable
class EncoderInputs(Protocol):
    """What the lineage provides to the steps that make an encoder."""

    @property
    def config(self) -> Any:
        """The whole configuration, a `config.model.Config`."""
        ...

    @property
    def device(self) -> Device:
        """Where models are trained."""
        ...

    def folder(self, encoder: str, part: str = "encoder") -> Path:
        """Return the folder of a model that a step makes."""
        ...

    def texts(self, table: str, corpus: str, partition: str, splits: Sequence[str]) -> pa.Table:
        """Return some splits of `utterances` (`utterance_id`, `text`) or `sentence_pairs` (`source`, `target`)."""
        ...

    def files(self, encoder: str) -> EncoderFiles:
        """Return the model of another encoder."""
        ...

    def vectors(self, encoder: str, language: str, texts: TextColumn) -> tuple[int, Float[np.ndarray, "texts dim"]]:
        """Return how many texts had to be encoded, and the vectors of all texts, stored as the encoder's embeddings."""
        ...


@dataclass(frozen=True)
class EncoderReport:
    """Result of a step that makes an encoder: the fields of a `lineage.result.StepResult`."""

    content: str
    is_reused: bool
    figures: Mapping[str, Any] = field(default_factory=dict)
    summary: str = ""


@dataclass(frozen=True, kw_only=True)
class EncoderStep:
    """A step of the lineage that makes an encoder, or a part of one; its asset is `embeddings/ENCODER/ENCODER_PART`."""

    encoder: str  # name of the encoder
    part: str = "encoder"  # what is made: `encoder`, or a name of its own
    description: str  # what is made, for the UI
    version: str  # fingerprint of the code and settings that determine the result
    tables: tuple[str, ...]  # tables of the stage `corpora` that are read, with all partitions
    after: tuple[tuple[str, str, str], ...] = ()  # keys of other steps of encoders whose results are read
    is_training: bool = True  # whether it trains a model, which takes hours on large data
    # Function, as `module:FUNCTION`, that makes it unless it exists; imported when the step runs. It takes the settings
    # and an `EncoderInputs`, and returns an `EncoderReport`.
    make: str

    @property
    def key(self) -> tuple[str, str, str]:
        return encoder_key(self.encoder, self.part)


def encoder_key(encoder: str, part: str = "encoder") -> tuple[str, str, str]:
    """Return the key of an encoder that the lineage makes, or of a part of one."""
    return ("embeddings", encoder, f"{encoder}_{part}")


def not_made_yet(path: Path, encoder: str, part: str = "encoder") -> EncoderError:
    """Return the error for a model that its lineage step has not made yet."""
    key = encoder_key(encoder, part)
    remedy = f"Materialise the asset {'/'.join(key)} first"
    return EncoderError(located(path, None, f"{key[-1]} has not been made yet", remedy))
