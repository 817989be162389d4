"""List the code that exported folders may have: that of this version and of earlier ones."""

from collections.abc import Collection, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from disent_core.errors import DamagedError, located, quoted
from disent_core.storage.results import sha256_of
from disent_core.text import parsed_json, settings_within

ROOT = Path(__file__).parents[2]  # of the packages
COPIED = (
    "disent_core.export.modeling_disent",
    "disent_core.export.side_by_side",
    "disent_core.methods.modules.word_rows",
    "disent_core.normal_form",
    "disent_core.random_bits",
)
"""The shipped module, and the modules of disent that it imports directly or indirectly."""
COPIED_OF_STATIC = (
    "disent_core.export.modeling_static",
    *COPIED[1:],
    "disent_core.static_model",
    "disent_core.static_folder",
    "disent_core.embedding_names",
    "disent_core.text",
    "disent_core.progress",
    "disent_core.errors",
)
"""The same for the module of a static model."""
EARLIER_CODE = {
    "disent 0.2 or 0.3": {
        "modeling_disent.py": "cc31a85f1bbc86896c58fe087cb76930e662b628c76590e22a66ec262661dc17",
        "normal_form.py": "6675c5e5a33d4e55a6459da96dd18e986a75fc4e9cd34514b54cb9d8a4c323f3",
        "random_bits.py": "2fad33dddc61d0bdd5e4f67f730cf4d7874e63d9e323fc44dad360a1663eb2a1",
        "word_rows.py": "287f776a295ccb40ec2f8be69d8e26b396ef1a3730e8512f95e37c592ab7aa06",
    },
}
"""SHA-256 of the code files that released versions wrote."""


def shipped_code(names: Collection[str] = (*COPIED, *COPIED_OF_STATIC)) -> dict[str, str]:
    """Return the source of each code file that a folder may have, by name."""
    code = {}
    for name in names:
        # Not imported: it may need libraries that are not installed.
        source = ROOT.joinpath(*name.split(".")).with_suffix(".py").read_text(encoding="utf-8")
        for other in names:  # transformers copies relative imports only
            source = source.replace(f"from {other} import", f"from .{other.rpartition('.')[2]} import")
        code[f"{name.rpartition('.')[2]}.py"] = source
    return code


def known_code() -> dict[str, Mapping[str, str]]:
    """Return the SHA-256 of each code file that a version of disent writes, this version first."""
    current = {name: sha256(source.encode()).hexdigest() for name, source in shipped_code().items()}
    return {"this version of disent": current, **EARLIER_CODE}


def writer_of_code(folder: Path) -> str | None:
    """Return the version that wrote the code in a folder, which `trust_remote_code=True` would run; None without code.

    Reject other code, and JSON that imports code from elsewhere.
    """
    remedy = "Do not load the folder with trust_remote_code=True, or export the head again"
    for file in sorted(folder.rglob("*.json")):
        for key, value in _settings(file):
            named = [*value.values()] if isinstance(value, dict) else [value]
            is_class = key in ("types", "activation_function") or (key == "type" and file.name == "modules.json")
            if key == "auto_map" or (is_class and not all(map(_is_known_class, named))):
                problem = f"{key} names code that is not disent's, {quoted(value)}"
                raise DamagedError(located(file, None, problem, remedy))
    files = {file.relative_to(folder).as_posix(): file for file in sorted(folder.rglob("*.py*")) if file.is_file()}
    sums, known = {(name, sha256_of(file)) for name, file in files.items()}, known_code()
    writers = [version for version, code in known.items() if sums <= code.items()]
    if not writers:
        others = sums - {file for code in known.values() for file in code.items()} or sums
        names = ", ".join(sorted(name for name, _ in others))
        problem = f"not the code of {' or '.join(known)}: {names}; anybody may have written it"
        raise DamagedError(located(folder, None, problem, remedy))
    return writers[0] if sums else None


def _settings(file: Path) -> list[tuple[str, Any]]:
    """Return keys and values of a JSON file, at any depth."""
    try:
        return [*settings_within(parsed_json(file.read_text(encoding="utf-8")))]
    except (OSError, ValueError, RecursionError) as error:
        problem = f"this can't be read ({error})"
        raise DamagedError(located(file, None, problem, "Export the head again")) from error


def _is_known_class(name: object) -> bool:
    """Return whether a class to import is of sentence-transformers, torch or disent; without a dot it is no import."""
    known = ("sentence_transformers.", "torch.nn.", "modeling_disent.", "modeling_static.")
    return "." not in str(name) or (str(name).startswith(known) and "--" not in str(name))
