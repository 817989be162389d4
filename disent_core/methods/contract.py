"""Define how a method is declared: the same for a frozen head, a fine-tuned encoder and a tagger.

A method's module exports `METHOD`. The registry (`disent_core.methods`) lists the library's modules; the configuration
names any other module itself.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Generic, TypeVar

from disent_core.errors import commas
from disent_core.settings import Settings
from disent_core.training.needs import Need

EMBEDDINGS = ("sentence", "meaning", "template", "residual", "language")
"""Allowed names of embeddings, known to tasks and the warehouse."""

Config = TypeVar("Config", bound=Settings)  # the settings of a method


@dataclass(frozen=True, kw_only=True)
class Method(Generic[Config]):
    """A system that turns the output of an encoder into embeddings, or into slot tags.

    A family of methods is a subclass; a method is an instance of it.

    Attributes:
        trainer: subclass of `disent_core.methods.trainer.Trainer` that trains, saves and loads the family's methods, or
            a reference `module:ATTRIBUTE` to it.
        name: name in the registry.
        presets: named settings; the default, `paper`, follows the method's paper if there is one.
        embeddings: names that `embed` returns, from `EMBEDDINGS`, in display order.
        needs: data that the method reads beyond the sentence vectors of utterances.
        labels: whether it tags the slots of sentences (`TrainedLabeller`).
        reads_encoder: False if it reads only the words of texts: a head is then applied without its encoder.
        is_trained: False if there is nothing to fit, and so no weights.
        trains_on_gpu: False if training computes on the CPU whatever the device, and so holds no GPU.
        is_seeded: False if nothing is random: the method is then fitted once and embeds with seed None.
        space: for each setting, the values that a settings search (`[settings_search]`) draws from.
        transductive: setting and value that make a text's embedding depend on the texts embedded together with it.
        ranks_dev_pairs: whether the training curve includes translation retrieval on dev; a head's curve does if its
            settings have `monitor` = `dev_retrieval`.
        code_version: must change with every code change that changes results.
    """

    trainer: ClassVar[Any] = None
    name: str
    presets: Mapping[str, Config]
    embeddings: tuple[str, ...] = ()
    needs: frozenset[Need] = frozenset()
    labels: bool = False
    reads_encoder: bool = True
    is_trained: bool = True
    trains_on_gpu: bool = True
    is_seeded: bool = True
    space: Mapping[str, tuple[Any, ...]] = field(default_factory=dict[str, tuple[Any, ...]])
    transductive: tuple[str, object] | None = None
    ranks_dev_pairs: bool = False
    code_version: str = "1"

    def __post_init__(self) -> None:
        if "paper" not in self.presets:
            raise ValueError(f"method {self.name!r} has no preset 'paper', the default")
        if self.trainer is None:
            raise ValueError(f"method {self.name!r} has no trainer; make it an instance of a family of methods")
        if not self.embeddings and not self.labels:
            raise ValueError(f"method {self.name!r} has no embeddings and does not tag, so nothing can be measured")
        if odd := [name for name, preset in self.presets.items() if not isinstance(preset, Settings)]:
            raise ValueError(f"method {self.name!r} has presets {commas(odd)}, not disent_core.settings.Settings")
        known = {setting.name for setting in fields(self.presets["paper"])}
        if odd := sorted(set(self.space) - known):
            raise ValueError(f"method {self.name!r} has values to search for unknown settings: {commas(odd)}")
        if odd := sorted(set(self.embeddings) - set(EMBEDDINGS)):
            raise ValueError(f"method {self.name!r} has embeddings {commas(odd)}; choose from {commas(EMBEDDINGS)}")

    def needs_of(self, settings: Config) -> frozenset[Need]:
        """Return the data that the method reads with these settings: `needs` or less."""
        return self.needs - getattr(settings, "unread", frozenset())

    def is_transductive(self, settings: Config) -> bool:
        """Whether a text's embedding depends on the texts embedded together with it."""
        return self.transductive is not None and getattr(settings, self.transductive[0]) == self.transductive[1]

    def may_stop_early(self, settings: Config) -> bool:
        """Whether training can stop early; if so, a best epoch at the very end means training was cut short."""
        return False

    def most_epochs(self, settings: Config) -> int | None:
        """Return the largest possible number of epochs, if the settings limit it."""
        return getattr(settings, "max_epochs", None)

    def without_warm_start(self, settings: Config) -> Config:
        """Return these settings for training from scratch; if they differ, `fit` gets earlier weights as `initial`."""
        return settings
