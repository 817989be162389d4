"""Define fuzz targets: small valid files and their readers, which may raise only the project's own errors."""

import io
import json
import random
import tarfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from disent_assets.warehouse.sql_files import published_tables
from disent_core.config.load import load_config
from disent_core.corpora import is_of_pairs, pair_reader, reader
from disent_core.encoders.kinds.vectors import ImportedVectors, VectorsConfig, encoder_fingerprint
from disent_core.evaluation.mteb_results import read_results, result_files
from disent_core.storage.tables import rows_table
from disent_core.targets.code_switching import read_dictionary

from .enlarge import enlarged, enlarged_content
from .mutate import Files, mutated
from .pages import FILES as PAGE
from .pages import ask
from .records import (
    HEAD,
    RECORD,
    Made,
    make_folder,
    make_head,
    make_index,
    mutate_folder,
    mutate_head,
    mutate_index,
    read_folder,
    read_head,
    read_index,
)

Mutation = Callable[[Any, random.Random], Files]


@dataclass(frozen=True, kw_only=True)
class Target:
    """Valid files, how to change them, and the reader of a folder with them."""

    name: str
    files: Mapping[str, bytes]
    read: Callable[[Path], Any]
    mutate: Mutation = mutated
    enlarge: Mutation = enlarged
    seconds: float = 2.0
    """Processor seconds for any input: a small archive may unpack to 64 MB."""


def _lines(*lines: str) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


# --- corpora ----------------------------------------------------------------------------------------------


def _reads(form: str, path: str = ".") -> Callable[[Path], None]:
    """Return a function that reads everything in a corpus of the format, as the assets do."""

    def read(folder: Path) -> None:
        place = folder / path
        if is_of_pairs(form):
            for pair in pair_reader(form).pairs(place):
                pair_reader(form).content_hash(place, pair)
                pair_reader(form).read_pairs(place, pair, corpus="c")
            return
        for locale in reader(form).locales(place):
            reader(form).content_hash(place, locale)
            language = reader(form).language_of(locale)
            reader(form).read_utterances(place, locale, corpus="c", language=language)

    return read


def _massive(locale: str, *texts: tuple[str, str]) -> bytes:
    rows = (
        {"id": str(number), "locale": locale, "partition": "train", "scenario": "iot", "intent": "iot_light",
         "utt": text, "annot_utt": annotated}
        for number, (text, annotated) in enumerate(texts)
    )  # fmt: skip
    return _lines(*(json.dumps(row, ensure_ascii=False) for row in rows))


MASSIVE: Files = {
    "1.1/data/en-US.jsonl": _massive("en-US", ("dim the red lamp", "dim the [color : red] lamp"), ("stop", "stop")),
    "1.1/data/ja-JP.jsonl": _massive("ja-JP", ("赤いランプを消して", "[color : 赤い] ランプを消して")),
}
XSID: Files = {
    f"de.{split}.conll": _lines(
        "# id: 1", "# text: stelle den Wecker auf 6 Uhr", "# intent: alarm/set_alarm",
        "1\tstelle\talarm/set_alarm\tO", "2\tden\talarm/set_alarm\tO", "3\tWecker\talarm/set_alarm\tB-reference",
        "4\tauf\talarm/set_alarm\tO", "5\t6\talarm/set_alarm\tB-datetime", "6\tUhr\talarm/set_alarm\tI-datetime", "",
        "# id = 2", "# intent = weather/find", "1\tregnet\tweather/find\tO", "",
    )
    for split in ("valid", "test")
}  # fmt: skip
TABLE = (
    "id,language,intent,text,split,domain",
    '1,en,play,"play ""x"", please",train,music',
    "1,de,play,spiel das,train,music",
    "2,en,stop,stop it,test,",
)
INTENTS: Files = {
    "a/all.csv": _lines(*TABLE),
    "train.tsv": _lines("lang\tlabel\tsentence", "es\tstop\tpara ya", "ja\tplay\t音楽をかけて"),
    "test.jsonl": _lines(*(json.dumps({"locale": "fr", "intent": "x", "text": f"oui {n}", "id": n}) for n in "ab")),
}
CONLL: Files = {
    "yor/train.txt": _lines("-DOCSTART- O", "", "Ade B-PER", "lo O", "si O", "Eko I-LOC", "", "O B-ORG"),
    "yor/test.txt": _lines("Ade\tS-PER", "lo\tO", "\tO", "Eko\tB-LOC"),
    "eng.testa": _lines("EU NNP B-NP I-ORG", "rejects VBZ B-VP O", "", "Peter NNP B-NP I-PER"),
}
MOSES: Files = {
    "x.en-de.en": _lines("one house", "", "two dogs"),
    "x.en-de.de": _lines("ein Haus", "", "zwei Hunde"),
    "corpus.fr": _lines("oui", "non"),
    "corpus.es": _lines("sí", "no"),
}
TATOEBA: Files = {
    "tatoeba.deu-eng.deu": _lines("Wir essen.", "Ja."),
    "tatoeba.deu-eng.eng": _lines("We are eating.", "Yes."),
}
STS: Files = {
    "STS.input.track5.en-en.txt": _lines("a man is eating\ta man eats", "the dog runs\ta cat sleeps"),
    "STS.gs.track5.en-en.txt": _lines("4.8", "0.2"),
    "STS.de-en.txt": _lines("ein Hund läuft\ta dog is running\t5", "Regen\tthe sun\t0.0"),
}
MLQE: Files = {
    f"en-de/{split}.ende.df.short.tsv": _lines(
        "index\toriginal\ttranslation\tscores\tmean\tz_scores\tz_mean\tmodel_scores",
        "0\tOne house.\tEin Haus.\t[90, 80]\t85.0\t[0.1, 0.3]\t0.2\t-0.1",
        "1\tTwo dogs.\tZwei Katzen.\t[20, 30]\t25\t[-1, -2]\t-1.5\t-0.9",
    )
    for split in ("train", "dev", "test20")
}


MTEB_SCORES = {"accuracy": 0.5, "main_score": 0.4, "hf_subset": "deu-eng", "languages": ["deu-Latn", "eng-Latn"]}
MTEB: Files = {
    "disent__x/1/experiments/embedding_meaning/Tatoeba.json": json.dumps(
        {"task_name": "Tatoeba", "mteb_version": "2.26.24", "dataset_revision": "1", "date": 1.7e9,
         "scores": {"test": [MTEB_SCORES]}}
    ).encode(),
    "disent__x/1/experiments/embedding_meaning/model_meta.json": json.dumps(
        {"name": "disent/x", "revision": "1", "experiment_kwargs": {"embedding": "meaning", "seed": 1},
         "loader_kwargs": {"method": "x", "encoder": "y", "trained_on": "en-de"}}
    ).encode(),
}  # fmt: skip


def _results_of_mteb(folder: Path) -> None:
    rows_table((row for path in result_files(folder) for row in read_results(path, "mteb")), "mteb_results")


# --- tables of columns of any type ------------------------------------------------------------------------

VALUES: Sequence[pa.Array] = (
    pa.array(["en", "de", None]), pa.array(["a", "b", "c"]), pa.array([1, 2, 3]), pa.array([0.5, float("nan"), 1e300]),
    pa.array([True, False, None]), pa.array([b"\xff", b"en", b""]), pa.array([["en"], [], None]), pa.nulls(3),
    pa.array([[1.0, 2.0], [0.0, 1.0], [2.0, 3.0]]), pa.array([[1.0, 2.0], [None, 1.0], None]), pa.array([{"a": 1}] * 3),
    pa.array([0, 1, 2], pa.timestamp("us")), pa.array(["en", "en", "de"]).dictionary_encode(),
    pa.array([[1.0, 2.0]] * 3, pa.list_(pa.float16(), 2)), pa.array([[1.0]] * 3, pa.large_list(pa.float32())),
    pa.array([[1, 2]] * 3), pa.array(["en", "x", "y"], pa.large_string()), pa.array([10**30, 1, 2], pa.decimal128(38)),
    pa.array([["a", "b"]] * 3), pa.array([[[1.0]]] * 3), pa.array([1, 2, 3], pa.date32()),
    pa.array([2**63] * 3, pa.uint64()),
)  # fmt: skip


def _parquet(table: pa.Table) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    return buffer.getvalue()


def _columns_or_bytes(columns: Sequence[str]) -> Mutation:
    """Return a mutation: half of the time a valid Parquet file with columns of any type, else any mutation."""

    def mutate(files: Files, rng: random.Random) -> Files:
        if rng.random() < 0.5:
            return mutated(files, rng)
        name = next(name for name in files if name.endswith(".parquet"))
        table = pq.read_table(io.BytesIO(files[name])).slice(0, 3)
        for column in rng.sample(columns, rng.choice((1, 1, 2))):
            values = rng.choice(VALUES).slice(0, len(table))
            place = table.column_names.index(column) if column in table.column_names else None
            table = table.append_column(column, values) if place is None else table.set_column(place, column, values)
        return {**files, name: _parquet(table)}

    return mutate


def _many_rows(files: Files, rng: random.Random) -> Files:
    """Return a valid, small Parquet file of many equal rows, or of one row with a long string."""
    name = next(name for name in files if name.endswith(".parquet"))
    table = pq.read_table(io.BytesIO(files[name]))
    if rng.random() < 0.5:
        column = rng.choice([field.name for field in table.schema if pa.types.is_string(field.type)])
        text = enlarged_content(b"", rng).decode(errors="replace")
        rows = pa.DictionaryArray.from_arrays(pa.array(np.zeros(len(table), np.int32)), pa.array([text]))
        table = table.set_column(table.column_names.index(column), column, rows)
    few = table.slice(0, rng.choice((1, 2, 3)))
    buffer = io.BytesIO()
    with pq.ParquetWriter(buffer, few.schema) as writer:
        for _ in range(rng.choice((1, 1, 5, 50))):
            writer.write_table(few.take(np.zeros(int(10 ** rng.uniform(0, 4)), np.int32)))
    return {**files, name: buffer.getvalue()}


INTENT_ROWS = pa.table(
    {"language": ["en", "de", "en"], "intent": ["x", "x", "y"], "text": ["go", "geh", "stop"], "id": [1, 1, 2]}
)
VECTORS = pa.table({"text": ["a", "b", "c"], "vector": [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]})


# --- archives ---------------------------------------------------------------------------------------------


def _member(name: str, content: bytes, rng: random.Random | None) -> tarfile.TarInfo:
    """Return an archive member; with `rng`, one with an odd name, type, size or extended header."""
    member = tarfile.TarInfo(name)
    member.size = len(content)
    if rng and rng.random() < 0.7:
        member.name = rng.choice(
            (name, "/" + name, "../" + name, "x/../" + name, "", ".", "a" * 300 + name, "\x1b/data")
        )
        member.type = rng.choice(
            (b"0", b"1", b"2", b"3", b"4", b"5", b"6", b"7", b"L", b"K", b"x", b"g", b"S", b"\x00", b"Z")
        )
        member.linkname = rng.choice(("", name, "/etc/passwd", "../../x"))
        member.size = rng.choice((len(content), 0, 1, 10**6, 2**40, 8**11 - 1))
        if rng.random() < 0.3:
            member.pax_headers = {rng.choice(("path", "size", "GNU.sparse.size", "GNU.sparse.major", "GNU.sparse.map",
                                              "mtime", "hdrcharset", "linkpath")):
                                  rng.choice(("", "x", "-1", "9" * 30, "1,2,3", name, "nan", "BINARY"))}  # fmt: skip
    return member


def _tar(files: Files, rng: random.Random | None = None) -> bytes:
    packed = io.BytesIO()
    mode = rng.choice(("w:gz", "w", "w:bz2", "w:xz")) if rng else "w:gz"
    form = rng.choice((tarfile.PAX_FORMAT, tarfile.GNU_FORMAT)) if rng else tarfile.PAX_FORMAT
    with tarfile.open(fileobj=packed, mode=mode, format=form) as archive:
        for name, content in files.items():
            member = _member(name, content, rng)
            header = member.tobuf(form, archive.encoding or "utf-8", "surrogateescape")
            archive.fileobj.write(header + content + b"\0" * (-len(content) % 512))  # pyright: ignore
    return packed.getvalue()


def _of_archive(files: Files, rng: random.Random) -> Files:
    """Mutate the members of a valid archive, or its bytes."""
    del files
    if rng.random() < 0.2:
        return mutated({"massive.tar.gz": _tar(MASSIVE)}, rng)
    inside = mutated(MASSIVE, rng) if rng.random() < 0.5 else MASSIVE
    archive = _tar(inside, rng)
    return {"massive.tar.gz": mutated({"a": archive}, rng).get("a", b"") if rng.random() < 0.3 else archive}


def _of_large_archive(files: Files, rng: random.Random) -> Files:
    del files
    many = {f"1.1/data/x{number}": b"" for number in range(rng.choice((0, 0, 10, 3_000)))}
    return {"massive.tar.gz": _tar({**enlarged(MASSIVE, rng), **many})}


# --- vectors ----------------------------------------------------------------------------------------------


def _vectors(path: str) -> Callable[[Path], None]:
    def read(folder: Path) -> None:
        config = VectorsConfig(name="v", path=str(folder / path))
        encoder_fingerprint(config)
        config.known_keys("en")
        list(ImportedVectors(config, "en").encode(["a", "b"], states=False))

    return read


def _npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


JSON_VECTORS = _lines(
    *(json.dumps({"text": text, "vector": [0.5, n], "language": "en"}) for n, text in enumerate("ab"))
)


# --- configuration and papers -----------------------------------------------------------------------------

CONFIG: Files = {
    "disent.toml": _lines(
        "[[corpora]]", 'name = "m"', 'format = "massive"', 'path = "corpora"', 'languages = ["en-US", "ja-JP"]', "",
        "[[corpora]]", 'name = "u"', 'format = "intents"', 'url = "http://example.org/files/table.csv"',
        'languages = ["en", "de-DE"]', 'splits = [0.5, 0.25, 0.25]', f'sha256 = "{"0" * 64}"', "size = 12", "limit = 5",
        "",
        "[[corpora]]", 'name = "p"', 'format = "moses"', 'path = "nowhere"', 'pairs = ["en-de"]', "train = false", "",
        "[[corpora]]", 'name = "t"', 'format = "tatoeba"', 'path = "pairs"', "",
        "[targets.code_switching]", 'dictionaries = "words"', "probability = 0.3", "",
        "[[encoders]]", 'name = "scratch"', 'kind = "scratch"', "",
        "[[encoders]]", 'name = "v"', 'kind = "vectors"', 'path = "vectors/{language}"', "",
        "[[encoders]]", 'name = "hub"', 'kind = "huggingface"', 'path = "package:numpy/x"', 'pooling = "mean"', "",
        "[experiment]", 'pairs = ["en-ja", "en"]', 'methods = ["raw", "dream", "mine"]', "seeds = [0, 1]", "",
        "[methods.dream]", "max_epochs = 3", 'encoders = ["scratch"]', "learning_rate = 1e-3", "",
        "[methods.mine]", 'method = "fmda"', 'preset = "softmax"', 'encoders = ["hub"]', "seeds = [4]", "",
        "[evaluation]", "unseen = true", "", "[negatives]", "threshold = 0.1",
    ),
    "corpora/1.1/data/en-US.jsonl": b"",
    "pairs/tatoeba.deu-eng.deu": b"x\n",
    "pairs/tatoeba.deu-eng.eng": b"x\n",
}  # fmt: skip


def _configuration(folder: Path) -> None:
    """Query an accepted configuration for everything that the rest of the program needs."""
    config = load_config(folder / "disent.toml")
    for name in ("locales", "sentence_pairs", "languages", "pair_names", "training_sets", "pair_languages"):
        getattr(config, name)
    for corpus in config.corpora:
        config.resolve(corpus.path or "")


def _only(name: str, mutate: Mutation) -> Mutation:
    """Return a mutation of one file that leaves the others as they are."""

    def of_one(files: Files, rng: random.Random) -> Files:
        return {**files, name: mutate({name: files[name]}, rng).get(name, b"")}

    return of_one


PUBLISHED = _lines(
    "task,dataset,method,encoder,trained_on,evaluated_on,embedding,metric,value,n,settings,paper,table,note",
    'qe,wmt20_qe,raw,mbert,,en-de,sentence,pearson,0.071,1000,"{""model"": ""mBERT""}",dream,T2,',
    "sts,sts2017,dream,labse,en-de,en-de,meaning,spearman,0.1,,{},dream,T3,a note",
)


# --- all --------------------------------------------------------------------------------------------------

TARGETS = {
    target.name: target
    for target in (
        Target(name="massive", files=MASSIVE, read=_reads("massive")),
        Target(name="archive", files={"massive.tar.gz": _tar(MASSIVE)},
               read=_reads("massive", "massive.tar.gz"), mutate=_of_archive, enlarge=_of_large_archive, seconds=30),
        Target(name="xsid", files=XSID, read=_reads("xsid")),
        Target(name="intents", files=INTENTS, read=_reads("intents")),
        Target(name="intents_parquet", files={"x.parquet": _parquet(INTENT_ROWS)}, read=_reads("intents"),
               mutate=_columns_or_bytes(["language", "intent", "text", "id", "split", "domain"]),
               enlarge=_many_rows, seconds=30),
        Target(name="conll", files=CONLL, read=_reads("conll")),
        Target(name="moses", files=MOSES, read=_reads("moses")),
        Target(name="tatoeba", files=TATOEBA, read=_reads("tatoeba")),
        Target(name="sts", files=STS, read=_reads("sts")),
        Target(name="mlqe", files=MLQE, read=_reads("mlqe")),
        Target(name="word_list", files={"de.txt": _lines("house haus", "dog\thund", "x x")},
               read=lambda folder: read_dictionary(folder / "de.txt")),
        Target(name="vectors_npy", files={"v/x.npy": _npy(np.eye(2, dtype=np.float32)), "v/x.txt": b"a\nb\n"},
               read=_vectors("v")),
        Target(name="vectors_jsonl", files={"v/en/x.jsonl": JSON_VECTORS}, read=_vectors("v/{language}")),
        Target(name="vectors_parquet", files={"en.parquet": _parquet(VECTORS)}, read=_vectors("{language}.parquet"),
               mutate=_columns_or_bytes(["text", "vector", "language", "text_key"]),
               enlarge=_many_rows, seconds=30),
        Target(name="config", files=CONFIG, read=_configuration, mutate=_only("disent.toml", mutated),
               enlarge=_only("disent.toml", enlarged)),
        Target(name="published", files={"figures/dream.csv": PUBLISHED}, read=published_tables),
        Target(name="mteb", files=MTEB, read=_results_of_mteb),
        Target(name="search_page", files=PAGE, read=ask),
        Target(name="exported_folder", files=Made(make_folder, f"out/{RECORD}"), read=read_folder,
               mutate=mutate_folder, enlarge=mutate_folder, seconds=30),
        Target(name="head", files=Made(make_head, HEAD), read=read_head, mutate=mutate_head, enlarge=mutate_head,
               seconds=30),
        Target(name="index", files=Made(make_index, "index/index.json"), read=read_index,
               mutate=mutate_index, enlarge=mutate_index, seconds=30),
    )
}  # fmt: skip
