"""Commands that work with a model: export, check or evaluate it with mteb; embed, index and search texts."""

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import click

from disent_assets.cli.group import after_the_bar, main, short
from disent_assets.cli.queries import Style, format_option, print_table
from disent_assets.counted import counted
from disent_core.errors import DamagedError, located
from disent_core.text import printable

if TYPE_CHECKING:
    import pyarrow as pa
    from tqdm import tqdm

    from disent import Classifier, Hit, Index
    from disent.index import AnyModel, Loading
    from disent_core.export.folder import Exported
    from disent_core.search.contents import EngineChoice
    from disent_core.search.texts import Text, TextFile
    from disent_core.static_model import StaticModel

HEAD_HELP = (
    "A name from disent models, the folder of a model, a head's .safetensors file, an exported folder, the URL of an "
    "archive (--sha256), or METHOD@ENCODER:PAIR from the configuration."
)
MOVED_HEAD = click.option("--head", metavar="HEAD", help=f"Only if the model has moved. {HEAD_HELP}")
METHOD = click.option(
    "--method", "methods", multiple=True, metavar="MODULE:ATTRIBUTE",
    help="A module of your own that the head may name. Apart from disent's, no others are imported.",
)  # fmt: skip
ENCODER = click.option(
    "--encoder", type=click.Path(path_type=Path), help="Folder of the head's encoder, if it has moved."
)
SHA256 = click.option(
    "--sha256", metavar="DIGEST", expose_value=False,
    callback=lambda context, _, value: context.meta.__setitem__(_CHECKSUM, value),
    help="SHA-256 checksum of the archive, if the model is given by a URL.",
)  # fmt: skip
_CHECKSUM = f"{__name__}.sha256"


def together(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a decorator that adds several options, which help lists in this order."""
    return lambda command: reduce(lambda made, option: option(made), reversed(options), command)


OF_HEAD = together(ENCODER, SHA256, METHOD)


def checksum(head: str | None) -> str | None:
    """Return the checksum given for the model `head`; reject a checksum without a model."""
    sha256 = click.get_current_context().meta.get(_CHECKSUM)
    if head is None and sha256 is not None:
        raise ValueError("sha256= is the checksum of a model at a URL; name the URL too, or leave sha256= out")
    return sha256


def open_model(head: str, seed: int | None = None, *, stored: bool = False, **loading: "Unpack[Loading]") -> "AnyModel":
    """Load the model that a command was given; `head` is described in `HEAD_HELP`.

    With `stored`, look up the texts that the run has encoded, so that vectors equal those it measures, to the bit.
    """
    from disent.model import load

    sha256 = checksum(head)
    if sha256 is not None or "://" in head or not head.partition("@")[2] or Path(head).exists():
        return load(head, sha256=sha256, seed=seed, **loading)
    from disent.home import home_folder
    from disent.run import open as open_run
    from disent_assets.settings.environment import configuration
    from disent_core.config.model import head_name

    method, name, pair = head_name(head)
    encoder = loading.get("encoder")
    model = open_run(configuration(), home=home_folder()).head(method, name, pair or None)
    if stored and model.path is not None and encoder is None:
        model.seed = model._seed(seed)
        return model
    if model.path is not None:
        loading["methods"] = (*loading.get("methods", ()), *model.modules)
        return load(model.path, seed=seed, **loading)
    if seed is not None or encoder is not None:
        problem = f"{head} is untrained: it has no seed, and the configuration sets its encoder"
        raise ValueError(f"{problem}; leave --seed and --encoder out")
    return model


def open_index(folder: Path, head: str | None, **loading: "Unpack[Loading]") -> "Index":
    """Open the index given to a command; the options say where its head and encoder are if they have moved."""
    from disent import Index
    from disent_core.search.contents import read_contents

    checksum(head)
    contents = read_contents(folder) if head else None
    model = open_model(head, contents.head.seed, **loading) if head and contents else None
    return Index.open(folder, head=model, **loading)


@main.command()
@click.argument("head")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--embeddings", metavar="NAMES", help="Only these embeddings, separated by commas.")
@click.option("--onnx", is_flag=True, help="Also write the embeddings as one ONNX graph, disent.onnx.")
@click.option("--seed", type=int, help="Training seed; default: the first.")
@ENCODER
@click.option("--licence", help="Licence of the weights, for the card, such as CC-BY-4.0.")
@SHA256
@METHOD
def export(
    head: str,
    folder: Path,
    embeddings: str | None,
    onnx: bool,
    seed: int | None,
    licence: str | None,
    **loading: "Unpack[Loading]",
) -> None:
    """Write a trained head or a static model as a folder that sentence-transformers loads without disent.

    HEAD is a head's file (data/heads/ENCODER/METHOD/PAIR.safetensors), an exported folder, METHOD@ENCODER:PAIR from the
    configuration, a static model (its folder, or a name from disent models), or the URL of an archive of a folder.
    FOLDER must not exist.
    """
    from disent import Model

    loading["device"] = "cpu"
    model = open_model(head, seed, **loading)
    if not isinstance(model, Model):
        from disent.index import require_vectors

        require_vectors(model, _names(embeddings or ""))
        if embeddings is not None or onnx:
            raise ValueError(
                f"{head} is a static model, which is exported whole and without a graph; name the folder only"
            )
        _export_static(model, folder, licence)
        return
    chosen = _names(embeddings) if embeddings is not None else None
    written = model.save(folder, chosen, onnx=onnx, licence=licence)
    kind = "own" if written.rounding is None else "float32"
    if written.tags:
        click.echo(f"{short(folder.resolve())}: {', '.join(written.tags)}; the head's {kind} tags")
        _say_rounding(written)
        click.echo(f'\n    AutoModelForTokenClassification.from_pretrained("{short(folder.resolve())}")')
        return
    routes = list(written.routes.steps)
    exact = f"the head's {kind} vectors to {written.difference:.0e} of the largest value"
    click.echo(f"{short(folder.resolve())}: {', '.join(routes)}; {exact}")
    _say_rounding(written)
    if written.graph_difference is not None:
        click.echo(f"disent.onnx: the same, to {written.graph_difference:.0e}")
    if written.routes.left_out:
        absent = ", ".join(written.routes.left_out)
        click.echo(f"Left out; name them with --embeddings to include them: {absent}")
    flag = ", trust_remote_code=True" if written.routes.needs_code else ""
    click.echo(f'\n    model = SentenceTransformer("{short(folder.resolve())}"{flag})')
    click.echo(f'    model.encode(texts, task="{written.routes.default or routes[0]}")')


def _say_rounding(written: "Exported") -> None:
    if rounding := written.rounding:
        by = f"{rounding.difference:.0e} of the largest value"
        click.echo(f"the head was trained in {rounding.precision}, from which these differ by up to {by}")


def _export_static(model: "StaticModel", folder: Path, licence: str | None) -> None:
    import_module("sentence_transformers")  # before anything is read: without it, the message says how to install it
    from disent_core.export.static import export_static

    export_static(model, folder, licence=licence)
    path = short(folder.resolve())
    click.echo(f"{path}: {', '.join(model.names)}; the model's own vectors, to the bit")
    click.echo("sentence-transformers' own modules have no hashed n-grams, so the folder contains modeling_static.py")
    click.echo(f'\n    model = SentenceTransformer("{path}", trust_remote_code=True)')
    click.echo('    model.encode(texts, task="meaning")')


@main.command()
@format_option
def models(style: Style) -> None:
    """List the models that come with disent; disent.load(NAME) opens them without torch."""
    import pyarrow as pa

    from disent import models as listed

    rows = [
        model._asdict() | {"languages": " ".join(model.languages), "folder": str(model.folder)} for model in listed()
    ]
    if not rows and style == "table":
        click.echo("This installation of disent comes without models.")
        return
    types = {"name": pa.string(), "languages": pa.string(), "megabytes": pa.float64(), "licence": pa.string()}
    print_table(pa.Table.from_pylist(rows, schema=pa.schema({**types, "folder": pa.string()})), style)


@main.command()
@click.argument("folder", metavar="MODEL")
@click.option(
    "--key", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE",
    help="Check model.sig with this PEM file: the signer's public key, or the certificate that issued the signer's.",
)  # fmt: skip
@SHA256
@METHOD
def check(folder: str, key: Path | None, methods: tuple[str, ...]) -> None:
    """Check a third-party model or an exported folder: files, code, vectors of a few texts, and who signed it.

    MODEL is a folder, a name from disent models, or the URL of an archive (https://HOST/x.tar.gz) with --sha256.
    Without a signature, anyone who changes the folder can also rewrite its record.
    """
    from disent.home import expanded
    from disent.model import downloaded, require_model, static_folder
    from disent_core.export.checking import SIGNATURE, check_folder, signer_of

    sha256 = checksum(folder)
    if sha256 is not None and "://" not in folder:
        raise ValueError(f"sha256= is the checksum of an archive at a URL, and {folder} is not a URL; leave it out")
    path = downloaded(folder, sha256) if "://" in folder else static_folder(folder) or expanded(folder)
    require_model(path)
    signer = None if key is None else signer_of(path, key)
    checked = check_folder(path, methods)
    click.echo(f"{short(path.resolve())}: unchanged since its record was written")
    kind = "embeddings" if checked.routes else "tags      "
    click.echo(f"  {kind}  {', '.join(checked.routes or checked.tags)}")
    click.echo(f"  code        {'none' if checked.code is None else f'as {checked.code} writes it'}")
    if signer is not None:
        click.echo(f"  signature   by {printable(signer)}")
    elif (path / SIGNATURE).is_file():
        click.echo(f"  signature   {SIGNATURE}, which was not checked; give the signer's public key: --key FILE")
    else:
        click.echo("  signature   none, so this does not say who wrote it")
    if checked.graph is False:
        click.echo("disent.onnx has its checksum; to run it too: pip install 'disent-embeddings[onnx]'")


@main.command()
@click.argument("head")
@click.option("--embeddings", metavar="NAMES", help="Only these embeddings, separated by commas; default: all.")
@click.option("--tasks", metavar="NAMES", help="Only these tasks, by mteb's names, separated by commas.")
@click.option(
    "--languages",
    metavar="CODES",
    help="Only these languages, separated by commas; default: those the head was trained on.",
)
@click.option("--seed", type=int, help="Training seed; default: the first.")
@ENCODER
@click.option(
    "--folder", type=click.Path(path_type=Path), help="Folder of mteb's result files; default: mteb in DISENT_HOME."
)
@SHA256
@METHOD
def mteb(
    head: str,
    embeddings: str | None,
    tasks: str | None,
    languages: str | None,
    seed: int | None,
    folder: Path | None,
    **loading: "Unpack[Loading]",
) -> None:
    """Measure a head with mteb on the corpora of the configuration, and write mteb's result files.

    HEAD is a head's file (data/heads/ENCODER/METHOD/PAIR.safetensors), an exported folder, or METHOD@ENCODER:PAIR from
    the configuration, such as raw@minilm; in that case texts that the run has already encoded are looked up. What has
    been measured before is not measured again.
    """
    import_module("mteb")  # before anything is read: without it, the message says how to install it
    import disent
    from disent.home import home_folder
    from disent.mteb import DisentEncoder
    from disent_assets.settings.environment import configuration
    from disent_core.mteb_bridge.run import evaluate, local_tasks, trained_languages

    run = disent.open(configuration(), home=home_folder())
    model = open_model(head, seed, stored=True, **loading)
    if not isinstance(model, disent.Model):
        raise ValueError(f"{head} is a static model, and this needs a trained head")
    chosen = _names(languages) or trained_languages(run._workspace, str(model.description["trained_on"]))
    local = local_tasks(run._workspace, chosen, _names(tasks))
    output = run.home / "mteb" if folder is None else folder.expanduser()
    for name in _names(embeddings) or model.embeddings:
        measured = DisentEncoder(model, name)
        for result in evaluate(measured, local, output):
            for line in _lines(result):
                click.echo(f"{name}  {line}")
    click.echo(f"Result files of mteb: {short(output.resolve())}")


def _names(text: str | None) -> list[str]:
    return [name.strip() for name in text.split(",")] if text else []


def _lines(result: Any) -> Iterator[str]:
    """Yield the main score of every subset, with disent's name for it if that differs."""
    from disent_core.evaluation.mteb_results import twin_of

    twin = twin_of(result.task_name, is_ours=True)
    for scores in (scores for of_split in result.scores.values() for scores in of_split):
        same = [f"{ours} {scores[theirs]:.4f}" for theirs, ours in twin.metrics.items() if theirs in scores]
        listed = ", ".join([f"main score {scores['main_score']:.4f}", *same])
        yield f"{result.task_name} {scores['hf_subset']}: {listed}"


# --- search -----------------------------------------------------------------------------------------------------------

_INPUT = click.argument("texts", metavar="INPUT")
_NAMES = "shape (template), values (residual)"
_SEED = click.option("--seed", type=int, help="Training seed of the head; default: the first.")
_COLUMN = click.option("--column", default="text", show_default=True, help="Column or key with the texts.")
_LANGUAGE = click.option("--language", metavar="CODE", help="Language of texts without a value in the column language.")
_OF_TEXTS = together(_COLUMN, _LANGUAGE, _SEED, OF_HEAD)
_ENGINE = (
    "Search engine. auto: exact below 1,000,000 texts, then ivf of faiss if it is installed. "
    "Default: the previous choice, or auto."
)
_LOG_SECONDS = 5.0  # between progress lines where no terminal overwrites them


@main.command()
@_INPUT
@click.argument("output", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--head", default="small", show_default=True, metavar="HEAD", help=HEAD_HELP)
@click.option(
    "--embedding", metavar="NAME|all", help=f"{_NAMES}, meaning or all. Default: meaning if available, else the first."
)
@_OF_TEXTS
def embed(
    texts: str,
    output: Path,
    head: str,
    embedding: str | None,
    column: str,
    language: str | None,
    seed: int | None,
    **loading: "Unpack[Loading]",
) -> None:
    """Embed a file of texts with a model that comes with disent, or with a trained head.

    INPUT is a .txt or .log file (one text per line), a .jsonl, .csv or .parquet file, or - for lines from standard
    input. OUTPUT is a .parquet file with the texts and a column for each embedding, or a .npy matrix of one embedding.
    """
    with input_file(texts, column, language) as file:
        from disent.index import chosen_embeddings, encoded, head_record
        from disent_core.search.vectors_file import require_output, write_vectors

        require_output(output, file)
        model = open_model(head, seed, **loading)
        names = chosen_embeddings(model, embedding)
        require_output(output, file, names)
        with progress(file, model) as (checked, bar):
            count = write_vectors(
                output,
                checked,
                lambda block, spoken: encoded(model, block, spoken),
                names,
                head_record(model),
                model.description,
                advance=bar.update,
            )
        click.echo(f"{short(output.resolve())}: {counted(count, 'text')}, {', '.join(names)}")


@main.command()
@_INPUT
@click.argument("index", type=click.Path(path_type=Path, file_okay=False))
@click.option("--head", metavar="HEAD", help=f"{HEAD_HELP} Default: that of the index; for a new index, small.")
@click.option("--embedding", metavar="NAME|all", help="For a new index: only this embedding. Default: all.")
@click.option("--engine", type=click.Choice(["auto", "exact", "hnsw", "ivf"]), help=_ENGINE)
@_OF_TEXTS
def index(
    texts: str,
    index: Path,
    head: str | None,
    embedding: str | None,
    engine: "EngineChoice | None",
    column: str,
    language: str | None,
    seed: int | None,
    **loading: "Unpack[Loading]",
) -> None:
    """Index texts for search, or add texts to an index.

    INPUT is as for disent embed; lines without text are skipped. Only texts that INDEX lacks are encoded; an
    interrupted run is resumed.
    """
    with input_file(texts, column, language, skip_empty=True) as file:
        from disent.index import add, chosen_embeddings, head_record, index_model
        from disent_core.search.build import require_head
        from disent_core.search.contents import read_contents

        checksum(head)
        model = open_model(head, seed, **loading) if head else index_model(index, **loading)
        if (contents := read_contents(index)) is not None:
            require_head(index, contents, head_record(model))
        names = None if embedding is None else chosen_embeddings(model, embedding)
        with progress(file, model) as (checked, bar):
            added = add(index, model, checked, embeddings=names, engine=engine, advance=bar.update)
        known = f", {added.read - added.new:,} known or repeated" if added.read > added.new else ""
        repaired = f", {added.mended:,} from damaged files stored again" if added.mended else ""
        click.echo(f"{short(index.resolve())}: {counted(added.rows, 'text')}; {added.new:,} new{known}{repaired}")
        if (approximate := added.approximate) is not None:
            shares = ", ".join(f"{name} {share:.3f}" for name, share in approximate.recall_at_10.items())
            of = f"of the 10 nearest texts of exact search, on {approximate.queries} texts of the index"
            click.echo(f"{approximate.engine} finds this share {of}: {shares}")
        if added.lost:
            problem = f"{added.lost:,} texts were dropped, because their files were damaged; damaged-* has what is left"
            raise DamagedError(located(short(index), None, problem, "Index these texts again"))


@main.command()
@click.argument("index", type=click.Path(path_type=Path, file_okay=False))
@click.argument("text", required=False)
@click.option("--queries", metavar="FILE", help="Search for each text of a file, in the formats of disent embed.")
@click.option("--by", metavar="NAME", help=f"{_NAMES} or meaning. Default: meaning if available, else the first.")
@click.option("-k", "hits", type=click.IntRange(1), default=10, show_default=True, help="Hits per query.")
@click.option("--language", metavar="CODE", help="Language of the queries.")
@click.option("--other-language", is_flag=True, help="Leave out texts in the language of the query.")
@click.option("--only-language", metavar="CODE", help="Only texts in this language.")
@click.option("--except-same-text", is_flag=True, help="Leave out the query itself.")
@click.option("--exact", is_flag=True, help="Use exact search, whatever the engine of the index.")
@MOVED_HEAD
@_COLUMN
@OF_HEAD
@format_option
def search(
    index: Path,
    text: str | None,
    queries: str | None,
    by: str | None,
    hits: int,
    language: str | None,
    head: str | None,
    column: str,
    style: Style,
    encoder: Path | None,
    methods: tuple[str, ...],
    **request: Any,
) -> None:
    """Find the texts of an index that are nearest to TEXT: of the same shape, the same values or the same meaning.

    TEXT may be - for lines from standard input.
    """
    if (text is None) == (queries is None):
        raise ValueError("give either TEXT or --queries FILE")
    opened = open_index(index, head, encoder=encoder, methods=methods)
    asked = _queries(text, queries, column, language)
    results: list[list[Hit]] = [[]] * len(asked)
    for code in dict.fromkeys(query.language for query in asked):
        numbers = [number for number, query in enumerate(asked) if query.language == code]
        texts = [asked[number].text for number in numbers]
        answers = opened.search(texts, by, hits, language=code, **request)
        for number, answer in zip(numbers, answers, strict=True):
            results[number] = answer
    noise = opened.noise[opened._embedding(by)]
    print_table(_table([query.text for query in asked], results, noise, style), style)
    if style == "table" and (note := _note([hits[0].score for hits in results if hits], noise)):
        click.echo(f"\n{note}")


def _queries(text: str | None, queries: str | None, column: str, language: str | None) -> list["Text"]:
    from disent_core.search.texts import Text

    if text is not None and text != "-":
        return [Text(text, language)]
    with input_file(queries or "-", column, language) as file:
        file.count()
        return list(file)


def _table(queries: Sequence[str], results: "Sequence[list[Hit]]", noise: float, style: Style) -> "pa.Table":
    import pyarrow as pa

    rows = [
        {"query": query, **hit._asdict(), "is_near": hit.score > noise}
        for query, hits in zip(queries, results, strict=True)
        for hit in hits
    ]
    names = ["query", "score", "is_near", "language", "text", "row", "text_key"]
    if style in ("table", "markdown"):
        names = names[len(queries) == 1 : 5]
        if all(row["is_near"] for row in rows):
            names.remove("is_near")
    fields = {"score": pa.float32(), "row": pa.int64(), "is_near": pa.bool_()}
    schema = pa.schema([(name, fields.get(name, pa.string())) for name in names])
    return pa.Table.from_pylist([{name: row[name] for name in names} for row in rows], schema)


def _note(best: Sequence[float], noise: float) -> str:
    """Return a line on queries that match nothing, judged by the score of the nearest text; empty if all match."""
    from disent_core.search.noise import written_apart

    if not (unmatched := [score for score in best if score <= noise]):
        return ""
    if len(best) == 1:
        near, reached = written_apart(best[0], noise)
        return f"Nothing matches: the nearest text has a cosine of {near}; made-up words reach {reached} here"
    return f"{len(unmatched):,} of {len(best):,} queries match nothing: made-up words reach {noise:.2f} here"


# --- input ------------------------------------------------------------------------------------------------


@contextmanager
def input_file(name: str, column: str, language: str | None, *, skip_empty: bool = False) -> Iterator["TextFile"]:
    """Open the texts of a file, or of standard input, copied to a temporary file so that it can be read twice.

    With `skip_empty`, leave out lines without text, and report their number at the end.
    """
    from dataclasses import replace

    from disent_core.search.texts import TABLES, TextFile, text_file

    empty: set[int] = set()  # a file may be read twice
    with tempfile.NamedTemporaryFile(suffix=".txt") as copy:
        if name == "-":
            shutil.copyfileobj(sys.stdin.buffer, copy)
            copy.flush()
            file = TextFile(Path(copy.name), ".txt", "standard input", column, language)
        else:
            file = text_file(Path(name), column=column, language=language)
        if column != TextFile.column and file.kind not in TABLES:
            raise ValueError(f"{file.name} has no columns; leave out --column {column}")
        yield replace(file, skip=empty.add) if skip_empty else file
    if empty:
        click.echo(f"{file.name}: {counted(len(empty), 'line')} without text left out", err=True)


@contextmanager
def progress(file: "TextFile", model: "AnyModel") -> Iterator[tuple["TextFile", "tqdm"]]:
    """Read the texts once, so that no error comes after hours, and warn of languages unknown to the head.

    Then show a progress bar with the time left.
    """
    from dataclasses import replace

    from disent import Model
    from disent.index import needed_languages
    from disent_core.progress import text_bar

    checked = replace(file, languages=needed_languages(model))
    seconds = 0.1 if sys.stderr.isatty() else _LOG_SECONDS
    counts = checked.counts()
    seen = model.description.get("languages") if isinstance(model, Model) else model.languages
    if seen and (unseen := sorted({language for language in counts if language} - {*seen})):
        click.echo(f"The model has not seen {', '.join(map(repr, unseen))}, only {', '.join(seen)}", err=True)
    with after_the_bar(), text_bar(counts.total(), mininterval=seconds) as bar:
        yield checked, bar


_SHARED = """\
Whoever reaches {host} can search {index} and read its texts: there is no login.
Leave out --host, and only this machine can; or set DISENT_SERVE_TOKEN."""
_HOST = "Any other address lets other machines connect too, without a login unless DISENT_SERVE_TOKEN is set."


@main.command()
@click.argument("index", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--classifier",
    "labels",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="Also classify, with a classifier written by Classifier.save.",
)
@click.option("--port", type=click.IntRange(0, 65535), default=8900, show_default=True, help="0: any free port.")
@click.option("--host", default="127.0.0.1", show_default=True, help=_HOST)
@MOVED_HEAD
@OF_HEAD
def serve(
    index: Path, labels: Path | None, port: int, host: str, head: str | None, **loading: "Unpack[Loading]"
) -> None:
    """Serve a search page for an index, and its answers as JSON for programs.

    INDEX is a folder written by disent index. The page shows the texts with the same shape, values and meaning as a
    sentence, side by side. /openapi.json describes the API. If DISENT_SERVE_TOKEN is set, requests need that token.
    Ctrl-C stops the server.
    """
    from disent_assets.settings.environment import serve_token
    from disent_assets.web.listening import is_shared
    from disent_assets.web.search_page.app import run, warm

    token = serve_token()
    opened = open_index(index, head, **loading)
    warm(opened)
    classifier = None if labels is None else _classifier(labels, opened.model)
    if is_shared(host) and token is None:
        click.echo(_SHARED.format(host=host, index=short(index.resolve())), err=True)
    about = {"model": opened.head_title, "texts": f"{len(opened):,}", "index": str(short(index.resolve()))}
    if labels is not None:
        about["classifier"] = str(short(labels.resolve()))
    if opened.model.description.get("mates") == 0:
        about["shape and values"] = "the model was trained on texts without slots and knows neither"
    run(
        opened,
        about,
        host,
        port,
        lambda address: click.echo(f"Search page: {address} (Ctrl-C ends it)"),
        classifier=classifier,
        token=token,
    )


def _classifier(folder: Path, model: "AnyModel") -> "Classifier":
    """Load a classifier and classify once; share the index's model if the classifier was fitted on it."""
    from disent import Classifier
    from disent_core.errors import TrainingError

    try:
        classifier = Classifier.load(folder, model)
    except TrainingError:
        classifier = Classifier.load(folder)
    classifier.predict_proba(["warm"])
    return classifier
