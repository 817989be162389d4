"""Verify the signature of a folder, `model.sig`, which the command line of model-signing (OpenSSF) writes."""

import base64
import json
from pathlib import Path

from disent_core.errors import DamagedError, TrainingError, located, reason

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
