"""The configurations of configs/papers fill the papers' tables: run on stand-ins of encoders and of corpora."""

import io
import json
import tarfile
import tomllib
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import huggingface_hub.constants
import pytest
from hub_stand_ins import ARABIC, save_in_cache
from made_warehouses import sql_of
from worlds import section

from disent.query import query
from disent_assets.warehouse.build import build_warehouse
from disent_core.config.load import load_config
from disent_core.config.model import Config
from disent_core.corpora.languages import language_code
from disent_core.lineage.steps import steps
from disent_core.lineage.tables import refresh_vocabulary, stored_tables
from disent_core.lineage.workspace import Workspace
from tools import paper

ROOT = Path(__file__).parents[2]
CONFIGS = {path.stem: path for path in sorted((ROOT / "configs" / "papers").glob("*.toml"))}
PAGE = ROOT / "docs" / "papers.md"
KEPT = {
    "oracle": {"en", "de", "gn"}, "twosl": {"de-st", "yo"}, "dream_qe": {"en", "de", "ro"},
    "dream_sts": {"en", "de", "ar", "es"}, "dream_bertscore": {"en", "de", "si"},
}  # fmt: skip
"""Languages of a run, for time; of the other configurations all."""
DEVIATIONS = {f"{name}_{examples}" for name in ("twosl", "twosl_no_contrastive") for examples in (50, 100, 200)}
"""Methods whose deviation over seeds Table 9 has."""
SHORT: dict[str, Any] = {
    "max_epochs": 1, "epochs": 1, "contrastive_epochs": 1, "filter_epochs": 1, "type_epochs": 1, "filter_hidden": [8],
    "type_hidden": [8], "max_positive_pairs": 20, "none_sampling": 1, "batch_size": 32,
}  # fmt: skip
"""Settings that take time, and by which no figure finds its cell."""

# --- corpora in the published formats ---------------------------------------------------------------------

LATIN = "abcdefghijklmnopqrstuvwxyz"


def word(language: str, number: int) -> str:
    """Return a word of a language, which starts as its translations do."""
    spelled = LATIN[number // 26 % 26] + LATIN[number % 26] + language[:2]
    return spelled.translate(str.maketrans(LATIN, ARABIC)) if language == "ar" else spelled


def sentence(language: str, number: int) -> list[str]:
    """Return the words of a sentence: a slot value between those of a template; every fourth shares no word."""
    first, last = (number, 300 + number) if number % 4 == 3 else (number % 4, 10 + number % 4)
    return [word(language, place) for place in (first, 100 + number, last)]


def bitext(folder: Path, pair: str, stem: str, sides: tuple[str, str], count: int = 60) -> None:
    for language, side in zip(pair.split("-"), sides, strict=True):
        write(folder / f"{stem}.{side}", (" ".join(sentence(language, number)) for number in range(count)))


def write(path: Path, lines: Iterable[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def massive(path: Path, locales: Iterable[str]) -> None:
    path.parent.mkdir(parents=True)
    with tarfile.open(path, "w:gz") as archive:
        for locale in locales:
            rows = []
            for number in range(48):
                words, split = sentence(locale[:2], number), ("train", "train", "dev", "test")[number // 4 % 4]
                row = {"id": str(number), "locale": locale, "partition": split, "scenario": "toy"}
                row |= {"intent": str(number % 4), "utt": " ".join(words)}
                rows.append(row | {"annot_utt": " ".join([words[0], f"[name : {words[1]}]", *words[2:]])})
            content = "".join(json.dumps(row) + "\n" for row in rows).encode()
            member = tarfile.TarInfo(f"1.1/data/{locale}.jsonl")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


def xsid(folder: Path, language: str) -> None:
    for split, count in (("valid", 200), ("test", 12)):
        lines: list[str] = []
        for number in range(count):
            words, english = sentence(language, number), " ".join(sentence("en", number))
            lines += [f"# id: {number}", f"# text-en: {english}", f"# text: {' '.join(words)}", "# intent: toy"]
            tags = ["O", f"B-{'abc'[number % 3]}", "O"]
            lines += [f"{i}\t{token}\ttoy\t{tag}" for i, (token, tag) in enumerate(zip(words, tags, strict=True), 1)]
            lines.append("")
        write(folder / f"{language}.{split}.conll", lines)


def entities(folder: Path, language: str) -> None:
    for split, count in (("train", 100), ("dev", 10), ("test", 10)):
        rows = ([f"{words[0]} O", f"{words[1]} B-PER", ""] for words in (sentence(language, i) for i in range(count)))
        write(folder / language / f"{split}.txt", (line for row in rows for line in row))


def quality(folder: Path, pair: str) -> None:
    header = ["index", "original", "translation", "scores", "mean", "z_scores", "z_mean", "model_scores"]
    for split in ("train", "dev", "test20"):
        sides = ([" ".join(sentence(language, number)) for number in range(12)] for language in pair.split("-"))
        texts = enumerate(zip(*sides, strict=True))
        rows = ([str(i), *of_row, "[]", str(i), "[]", str(i * i), "0"] for i, of_row in texts)
        name = f"{split}.{pair.replace('-', '')}.df.short.tsv"
        write(folder / pair / name, ("\t".join(row) for row in [header, *rows]))


def similarity(folder: Path, pair: str) -> None:
    """Write a pair as SemEval has it, or as those have that came later."""
    sides = [[" ".join(sentence(language, number)) for number in range(12)] for language in pair.split("-")]
    rows, scores = list(zip(sides[0], reversed(sides[1]), strict=True)), [str(number % 6) for number in range(12)]
    tracks = {"ar-ar": "1", "en-ar": "2", "es-es": "3", "es-en": "4a", "en-en": "5", "en-tr": "6"}
    if track := tracks.get(pair):
        write(folder / f"STS.input.track{track}.{pair}.txt", map("\t".join, rows))
        write(folder / f"STS.gs.track{track}.{pair}.txt", scores)
    else:
        write(folder / f"STS.{pair}.txt", ("\t".join([*row, score]) for row, score in zip(rows, scores, strict=True)))


def write_corpus(path: Path, corpus: dict[str, Any]) -> None:
    if corpus["format"] == "massive":
        massive(path, corpus["languages"])
    for name in corpus.get("pairs", corpus.get("languages", [])):
        match corpus["format"]:
            case "moses":
                bitext(path, name, name, tuple(name.split("-")))
            case "tatoeba":
                bitext(path, name, "tatoeba.deu-eng", ("deu", "eng"), 20)
            case "sts":
                similarity(path, name)
            case "mlqe":
                quality(path, name)
            case "xsid":
                xsid(path, name)
            case "conll":
                entities(path, name)


# --- the runs ---------------------------------------------------------------------------------------------


def shortened(path: Path, config: Config, folder: Path) -> str:
    """Return the configuration with few languages and short trainings, and write its corpora below the folder."""
    toml, kept = tomllib.loads(path.read_text(encoding="utf-8")), KEPT.get(path.stem)

    def of(names: Iterable[str]) -> list[str]:
        """Return those of the names of languages, pairs and mixtures, or what is left of a mixture, that are kept."""
        parts = (
            "+".join(p for p in name.split("+") if not kept or {language_code(p)} <= kept or {*p.split("-")} <= kept)
            for name in names
        )
        return [part for part in parts if part]

    for corpus in toml["corpora"]:
        for key in ("languages", "pairs"):
            if key in corpus:
                corpus[key] = of(corpus[key])
        for key in ("url", "size", "sha256"):
            corpus.pop(key, None)
        write_corpus((folder / corpus["path"]).resolve(), corpus)
    if "targets" in toml:
        words = [f"{word('en', number)} {word('de', number)}" for number in range(200)]
        write((folder / toml["targets"]["code_switching"]["dictionaries"]).resolve() / "de.txt", words)
    toml["experiment"] |= {"pairs": of(toml["experiment"]["pairs"]), "device": "cpu", "seeds": [0]}
    toml["evaluation"]["bootstrap_samples"] = 20
    methods = {name: dict(toml.get("methods", {}).get(name, {})) for name in toml["experiment"]["methods"]}
    for name, method in methods.items():
        method |= {key: value for key, value in SHORT.items() if hasattr(config.methods[name].settings, key)}
        if "pairs" in method:
            method["pairs"] = of(method["pairs"])
        if name in DEVIATIONS:
            method["seeds"] = [0, 1]
    text = "".join(section("[corpora]", **corpus) for corpus in toml["corpora"])
    text += "".join(section("[encoders]", **encoder) for encoder in toml["encoders"])
    text += "".join(section(key, **toml[key]) for key in ("experiment", "evaluation"))
    tables = {f"training_sets.{name}": table for name, table in toml.get("training_sets", {}).items()}
    tables |= {f"targets.{name}": table for name, table in toml.get("targets", {}).items()}
    tables |= {f"methods.{name}": table for name, table in methods.items()}
    return text + "".join(section(name, **table) for name, table in tables.items())


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The cache of the hub has stand-ins of the models that the configurations name."""
    cache = tmp_path_factory.mktemp("hub")
    for path in CONFIGS.values():
        for encoder in tomllib.loads(path.read_text(encoding="utf-8"))["encoders"]:
            save_in_cache(cache, encoder["id"], encoder.get("revision"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(cache))
        yield


CELLS = """
with made as (select cell_id, bool_or({made}) as is_made from parts.paper_cells group by cell_id)
select method, encoder, dataset, evaluated_on, examples, is_made,
    (select list(place) from parts.cell_parts where cell_id = cells.cell_id) as places
from parts.table_cells as cells join made using (cell_id)
where paper || '_table' || regexp_extract("table", 'T(\\d+)', 1) = '{table}' and value is not null
"""


def is_of_others(cell: dict[str, Any], name: str) -> bool:
    """Whether a cell is of a system or an encoder that no configuration has: LASER, and those of `missing_reasons`."""
    of_others = {"prism", "d_tp", "d_lex_sim", "predictor_estimator", "bgt", "muse", "criss", "dueam", "mt_sent2vec"}
    return cell["method"] in of_others or (cell["encoder"] in ("laser", "msimcse") and name != "emu")


def languages(place: str) -> list[str]:
    return [place] if place == "de-st" else place.split("-")


def places(config: Config, dataset: str) -> set[str]:
    """Return where the full configuration measures a data set; that of quality estimation is in the corpus MLQE."""
    pairs = config.sentence_pairs.get("mlqe" if dataset == "wmt20_qe" else dataset, ())
    directions = ("-".join(dict.fromkeys(way)) for pair in pairs for way in (pair, pair[::-1]))
    return {*config.locales.get(dataset, ()), *directions}


@pytest.mark.parametrize("name", CONFIGS)
def test_a_configuration_makes_the_cells_of_the_tables_that_it_names(name: str, hub: None, tmp_path: Path):
    path, config = CONFIGS[name], load_config(CONFIGS[name])
    short = tmp_path / "configs" / "papers" / path.name
    short.parent.mkdir(parents=True)
    short.write_text(shortened(path, config, short.parent), encoding="utf-8")
    workspace = Workspace(load_config(short), tmp_path / "home")
    for step in steps(workspace):
        if not step.key[-1].endswith("comparisons"):
            for partition in step.names:
                step.make(partition or "")
    refresh_vocabulary(workspace)
    stored = stored_tables(workspace)
    inputs = {key: stored[key] for key in ("metrics", "configured_methods", "training_sets", "scored_embeddings")}
    build_warehouse(inputs, sql_of("papers", "parts.paper_cells", "parts.cell_parts"), workspace.warehouse)
    tables = [table for table, names in paper.tables(ROOT).items() if name in names]
    made, page = "measured is not null" if name == "emu" else "comparable", PAGE.read_text(encoding="utf-8")
    for table in tables:
        cells = query(workspace.warehouse, CELLS.format(table=table, made=made)).to_pylist()
        possible = [cell for cell in cells if not is_of_others(cell, name)]
        assert f"`{table}` | {len(possible)} of {len(cells)} |" in page
        printed, reasons = paper.cells(table, [workspace.warehouse])
        figures = ("cell_id", "published", "measured", "ci_low", "ci_high", "difference")
        distinct_rows = {tuple(value for key, value in row.items() if key not in figures) for row in printed}
        assert len(distinct_rows) == len(printed)
        assert reasons.total() == sum(not cell["is_made"] for cell in cells)
        for cell in possible:
            if (cell["method"] == "bertscore") == (name == "dream_bertscore"):
                is_run = not KEPT.get(name) or {*chain(*map(languages, cell["places"]))} <= KEPT[name]
                assert cell["is_made"] == is_run, cell
                assert name not in KEPT or {*cell["places"]} <= places(config, cell["dataset"]), cell
