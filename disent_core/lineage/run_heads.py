"""The heads of a run, trained or not, ready to be applied to any text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from disent_core.config.model import MethodConfig
from disent_core.encoders.transformer import resolve_device
from disent_core.errors import TrainingError
from disent_core.lineage.features import TextEncoder
from disent_core.lineage.head_spec import head_run, version
from disent_core.lineage.heads import load_head
from disent_core.lineage.workspace import Workspace
from disent_core.methods.contract import Method
from disent_core.methods.spec import describe_head
from disent_core.methods.trainer import TrainedLabeller, TrainedMethod
from disent_core.settings import Settings
from disent_core.training.data import TextFeatures


@dataclass(frozen=True)
class RunHead:
    """A method on an encoder and a training set of a run; what it offers is as in `saved_heads.SavedHead`.

    A text that the run has encoded is looked up.
    """

    workspace: Workspace
    configured: MethodConfig
    encoder: str
    trained_on: str

    @property
    def method(self) -> Method[Any]:
        """The method."""
        return self.configured.method

    @property
    def settings(self) -> Settings:
        """Its settings."""
        return self.configured.settings

    @property
    def path(self) -> Path | None:
        """File of its weights; None if it is untrained."""
        place = (self.encoder, self.configured.name, self.trained_on)
        return self.workspace.head(*place) if self.method.is_trained else None

    @cached_property
    def description(self) -> Mapping[str, Any]:
        """What was trained; of an untrained method its names."""
        if self.method.is_trained:
            return self._described()[0]
        run = head_run(self.workspace, self.encoder, self.configured, self.trained_on)
        names = {"name": run.name, "encoder": run.encoder, "trained_on": "", "seeds": []}
        return names | {"encoder_fingerprint": run.encoder_fingerprint}

    @cached_property
    def content(self) -> str:
        """Fingerprint of its weights, or of the code and settings of an untrained method."""
        return self._described()[1] if self.method.is_trained else version(self.configured)

    @cached_property
    def trained(self) -> TrainedMethod | TrainedLabeller:
        """The method with the weights of every seed."""
        device = resolve_device(self.workspace.config.experiment.device)
        return load_head(self.workspace, self.encoder, self.configured, self.trained_on, device)

    def features(self, texts: Sequence[str], language: str) -> TextFeatures:
        """Return what it reads of each text, in order."""
        return self._encoder.features(texts, language)

    @cached_property
    def _encoder(self) -> TextEncoder:
        return TextEncoder(self.workspace, self.encoder, self.configured.needs)

    def _described(self) -> tuple[Mapping[str, Any], str]:
        if self.path is None or (described := describe_head(self.path)) is None:
            raise TrainingError(f"no trained head at {self.path}. Run `disent materialize`")
        return described
