"""`disent check --key` says who signed a folder: signatures of model-signing, which `make scale-test` installs."""

import json
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from static_models import static_model

from disent_assets.cli import main
from disent_core.export.static import export_static

pytest.importorskip("model_signing")
pytest.importorskip("sentence_transformers")

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import NameOID


def write_keys(folder: Path, name: str, issuer: str | None = None) -> None:
    """Write NAME.key, NAME.pub and NAME.crt, a certificate that `issuer` (or the key itself) has issued."""
    key = ec.generate_private_key(ec.SECP256R1())
    (folder / f"{name}.key").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    (folder / f"{name}.pub").write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    signing_key, signer = key, x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    names = signer, signer
    if issuer is not None:
        names = signer, x509.load_pem_x509_certificate((folder / f"{issuer}.crt").read_bytes()).subject
        signing_key = load_pem_private_key((folder / f"{issuer}.key").read_bytes(), None)
    usage = dict.fromkeys(("content_commitment", "key_encipherment", "data_encipherment", "key_agreement",
                           "encipher_only", "decipher_only", "crl_sign"), False)  # fmt: skip
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(names[1], names[0], key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(x509.KeyUsage(digital_signature=True, key_cert_sign=issuer is None, **usage), critical=True)
        .sign(signing_key, SHA256())
    )  # fmt: skip
    (folder / f"{name}.crt").write_bytes(certificate.public_bytes(Encoding.PEM))


def sign(folder: Path, how: str, *options: str | Path) -> None:
    """Sign a folder as docs/operations.md says."""
    command = [sys.executable, "-m", "model_signing", "sign", how, folder, "--signature", folder / "model.sig"]
    subprocess.run([*command, *options], check=True, capture_output=True)


def check(folder: Path, key: Path) -> Result:
    return CliRunner().invoke(main, ["check", str(folder), "--key", str(key)])


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A folder, and keys of its maker, of an authority that has issued the maker's certificate, and of a stranger."""
    place = tmp_path_factory.mktemp("signed")
    export_static(static_model(), place / "folder")
    write_keys(place, "authority")
    write_keys(place, "maker", issuer="authority")
    write_keys(place, "stranger")
    return place


@pytest.fixture
def folder(made, tmp_path) -> Path:
    return Path(shutil.copytree(made / "folder", tmp_path / "folder"))


def test_a_key_signature_verifies_only_with_the_signers_public_key(folder, made):
    sign(folder, "key", "--private_key", made / "maker.key")
    answer = check(folder, made / "maker.pub")
    assert (answer.exit_code, f"signature   by the key of {made / 'maker.pub'}\n" in answer.output) == (0, True)
    answer = check(folder, made / "stranger.pub")
    assert (answer.exit_code, answer.output.count("\n")) == (1, 1)
    assert "model.sig: this signature fails verification" in answer.output


def test_a_certificate_signature_names_its_signer_if_the_issuer_matches(folder, made):
    sign(folder, "certificate", "--private_key", made / "maker.key", "--signing_certificate", made / "maker.crt",
         "--certificate_chain", made / "authority.crt")  # fmt: skip
    answer = check(folder, made / "authority.crt")
    assert (answer.exit_code, "signature   by CN=maker, by a certificate that " in answer.output) == (0, True)
    assert check(folder, made / "stranger.crt").exit_code == 1
    assert check(folder, made / "stranger.pub").exit_code == 1


@pytest.mark.parametrize("change", ["changed", "added", "removed"])
def test_a_folder_that_has_changed_since_it_was_signed_is_refused(folder, made, change):
    sign(folder, "key", "--private_key", made / "maker.key")
    if change == "removed":
        (folder / "README.md").unlink()
    else:
        (folder / ("README.md" if change == "changed" else "notes.txt")).write_text("of a stranger")
    answer = check(folder, made / "maker.pub")
    assert (answer.exit_code, answer.output.count("\n")) == (1, 1)
    assert "model.sig: this signature fails verification" in answer.output


def test_a_signature_that_omits_files_is_refused(folder, made):
    ignored = folder / "modeling_static.py"
    sign(folder, "key", "--private_key", made / "maker.key", "--ignore-paths", ignored)
    answer = check(folder, made / "maker.pub")
    assert answer.exit_code == 1
    assert "it leaves out modeling_static.py" in answer.output


def test_an_invalid_signature_or_key_is_one_error_line(folder, made):
    for content, key, problem in (
        (None, "maker.pub", "no signature to check"),
        ("{}", "maker.pub", "fails verification"),
        (json.dumps({"dsseEnvelope": 1}), "maker.crt", "fails verification"),
        ("{}", "maker.key", "neither an elliptic-curve public key nor a certificate"),
    ):
        if content is not None:
            (folder / "model.sig").write_text(content)
        answer = check(folder, made / key)
        assert (answer.exit_code, answer.output.count("\n"), problem in answer.output) == (1, 1, True), answer.output
