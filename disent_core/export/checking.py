"""Check that a folder is as it was written, and who signed it.

The folder of a static model needs NumPy alone; that of a head is opened, and its vectors of a few texts are compared. A
signature is `model.sig`, which the command line of model-signing (OpenSSF) writes.
"""

import base64
import json
from collections.abc import Collection
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from disent_core.errors import DamagedError, TrainingError, located, reason
from disent_core.export.shipped_code import writer_of_code
from disent_core.static_folder import is_static
from disent_core.static_model import StaticModel

if TYPE_CHECKING:
    from disent_core.lineage.saved_heads import SavedHead

ELSEWHERE = 1e-4  # largest difference on another machine, whose processor may round in another order


@dataclass(frozen=True)
class Checked:
    """Result for a folder that is unchanged since its record was written."""

    routes: tuple[str, ...]
    code: str | None  # the version of disent that writes the code in it; None without code
    graph: bool | None = None  # whether its ONNX graph was run, which needs onnxruntime; None if it has none
    tags: tuple[str, ...] = ()  # tags of a tagger, which has no routes


def check_folder(folder: Path, allowed: Collection[str] = ()) -> Checked:
    """Check an exported folder: its record and files, its code, and that its vectors are the original ones.

    For a static model, whose vectors depend on no library, check only files and code.

    The head is opened as `disent.load` opens it. `allowed` are modules of the user that its record may name.
    """
    if is_static(folder):
        return Checked(StaticModel.load(folder).names, writer_of_code(folder))
    from disent_core.export.folder import TaggerProbes, VectorProbes
    from disent_core.export.onnx_graph import GRAPH
    from disent_core.export.saved_folder import open_folder, read_record

    head = open_folder(folder, device="cpu", allowed=allowed)
    record, code = read_record(folder), writer_of_code(folder)
    _apply(head, record["seed"])
    tags = tuple(record.get("tags", ()))
    vectors = {name: np.asarray(rows, dtype=np.float32) for name, rows in record["probes"]["vectors"].items()}
    kind = TaggerProbes if tags else VectorProbes
    probes = kind(record["probes"]["texts"], vectors, (record["encoder"] or {}).get("max_length"))
    _require_equal(folder, probes.difference(folder), probes.what, probes.library)
    has_graph, has_runtime = (folder / GRAPH).is_file(), find_spec("onnxruntime") is not None
    if has_graph and has_runtime:
        _require_equal(folder / GRAPH, probes.graph_difference(folder), probes.what, "onnxruntime")
    return Checked(() if tags else tuple(vectors), code, has_runtime if has_graph else None, tags)


def _apply(head: "SavedHead", seed: int | None) -> None:
    """Run a head on a text, which reads all of its weights."""
    from disent_core.methods.trainer import TrainedLabeller

    trained = head.trained
    language = next(iter(sorted(trained.languages or ())), "")
    if isinstance(trained, TrainedLabeller):
        trained.label([["a"]], language, seed)
    else:
        trained.embed(head.features(["a"], language), seed)


def _require_equal(path: Path, difference: float, what: str, library: str) -> None:
    if not difference <= ELSEWHERE:
        problem = f"its {what} differ by {difference:.1e} of their largest value from those at the export"
        raise DamagedError(located(path, None, problem, f"Check the version of {library}"))


# --- signatures -------------------------------------------------------------------------------------------

SIGNATURE = "model.sig"
_LEFT_OUT = {SIGNATURE, ".git", ".gitattributes", ".github", ".gitignore"}
"""Files that a signature may lack: model-signing leaves these out, and nothing reads them."""


def signer_of(folder: Path, key: Path) -> str:
    """Verify the signature of a folder and every file, and return who signed it.

    `key` is a PEM file with the public key of the signer, or with the certificate of the signer's issuer.
    """
    from model_signing import verifying  # pyright: ignore[reportMissingImports]

    path, is_certificate = folder / SIGNATURE, b"BEGIN CERTIFICATE" in key.read_bytes()
    if not path.is_file():
        raise TrainingError(located(path, None, "there is no signature to check with --key", "Ask its maker for one"))
    try:
        if is_certificate:
            verifier = verifying.Config().use_certificate_verifier(certificate_chain=[key])
        else:
            verifier = verifying.Config().use_elliptic_key_verifier(public_key=key)
    except Exception as error:  # errors of cryptography and OpenSSL have no common class
        problem = f"this is neither an elliptic-curve public key nor a certificate ({reason(error)})"
        raise TrainingError(located(key, None, problem, "Name a PEM file")) from error
    try:
        verifier.verify(folder, path)
        bundle = json.loads(path.read_text(encoding="utf-8"))
        statement = json.loads(base64.b64decode(bundle["dsseEnvelope"]["payload"]))
        if unsigned := {*statement["predicate"]["serialization"].get("ignore_paths", ())} - _LEFT_OUT:
            raise ValueError(f"it leaves out {', '.join(sorted(unsigned))}")
        if not is_certificate:
            return f"the key of {key}"
        from cryptography import x509  # pyright: ignore[reportMissingImports]

        chain = bundle["verificationMaterial"]["x509CertificateChain"]["certificates"]
        name = x509.load_der_x509_certificate(base64.b64decode(chain[0]["rawBytes"])).subject.rfc4514_string()
    except Exception as error:  # the same, and whatever a forged bundle makes its readers raise
        problem = f"this signature fails verification with {key} ({reason(error)})"
        raise DamagedError(located(path, None, problem, "Get the folder, or the key, from its maker again")) from error
    return f"{name}, by a certificate that {key} has issued"
