"""Commands that embed texts with a trained head, index them, and search the index."""

import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from disent_assets.cli.answers import FORMATS, Style, print_table
from disent_assets.cli.group import errors, main, short
from disent_assets.cli.heads import ENCODER, HEAD_HELP, MOVED_HEAD, open_index, open_model
from disent_core.errors import DamagedError, located

if TYPE_CHECKING:
    import pyarrow as pa
    from tqdm import tqdm

    from disent import Hit, Model
    from disent.index import SearchRequest
    from disent_core.search.contents import EngineChoice
    from disent_core.search.texts import Text, TextFile

_INPUT = click.argument("texts", metavar="INPUT")
_SEED = click.option("--seed", type=int, help="Seed of the head's training; default: the first.")
_COLUMN = click.option("--column", default="text", show_default=True, help="Column or key with the texts.")
_LANGUAGE = click.option(
    "--language", metavar="CODE", help="Language of texts whose row has none in a column language."
)
_ENGINE = (
    "What searches. auto: exact below 1,000,000 texts, then ivf of faiss if it is installed. "
    "Default: what was chosen before, or auto."
)
_LOG_SECONDS = 5.0
"""Between two lines of progress where no terminal overwrites them."""


@main.command()
@_INPUT
@click.argument("output", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--head", required=True, metavar="HEAD", help=HEAD_HELP)
@click.option("--embedding", metavar="NAME|all", help="Default: the meaning, or the first that the head has.")
@_COLUMN
@_LANGUAGE
@_SEED
@ENCODER
@click.pass_context
def embed(
    context: click.Context,
    texts: str,
    output: Path,
    head: str,
    embedding: str | None,
    column: str,
    language: str | None,
    seed: int | None,
    encoder: Path | None,
) -> None:
    """Embed a file of texts by a trained head.

    INPUT is a .txt (a text a line), .jsonl, .csv or .parquet file, or - for lines of standard input. OUTPUT is a
    .parquet file with the texts and a column for each embedding, or a .npy matrix of one embedding.
    """
    with errors(context), input_file(texts, column, language) as file:
        from disent.index import chosen_embeddings, head_record
        from disent_core.search.vectors_file import require_output, write_vectors

        require_output(output, file)
        model = open_model(head, seed, encoder)
        names = chosen_embeddings(model, embedding)
        require_output(output, file, names)
        with progress(file, model) as (checked, bar):
            count = write_vectors(
                output,
                checked,
                lambda block, spoken: model.encode_all(block, language=spoken),
                names,
                head_record(model),
                model.description,
                advance=bar.update,
            )
        click.echo(f"{short(output.resolve())}: {count:,} texts, {', '.join(names)}")


@main.command()
@_INPUT
@click.argument("index", type=click.Path(path_type=Path, file_okay=False))
@click.option("--head", metavar="HEAD", help=f"{HEAD_HELP} Only a new index needs it.")
@click.option("--embedding", metavar="NAME|all", help="Of a new index: only this one. Default: all that the head has.")
@click.option("--engine", type=click.Choice(["auto", "exact", "hnsw", "ivf"]), help=_ENGINE)
@_COLUMN
@_LANGUAGE
@_SEED
@ENCODER
@click.pass_context
def index(
    context: click.Context,
    texts: str,
    index: Path,
    head: str | None,
    embedding: str | None,
    engine: "EngineChoice | None",
    column: str,
    language: str | None,
    seed: int | None,
    encoder: Path | None,
) -> None:
    """Index texts for search, or add texts to an index.

    INPUT is as for disent embed. Only texts that INDEX lacks are encoded; a stopped run is continued.
    """
    with errors(context), input_file(texts, column, language) as file:
        from disent.index import add, chosen_embeddings, head_record, index_model
        from disent_core.search.build import require_head
        from disent_core.search.contents import read_contents

        model = open_model(head, seed, encoder) if head else index_model(index, encoder=encoder)
        if (contents := read_contents(index)) is not None:
            require_head(index, contents, head_record(model))
        names = None if embedding is None else chosen_embeddings(model, embedding)
        with progress(file, model) as (checked, bar):
            added = add(index, model, checked, embeddings=names, engine=engine, advance=bar.update)
        known = f", {added.read - added.new:,} known or repeated" if added.read > added.new else ""
        repaired = f", {added.mended:,} of damaged files stored again" if added.mended else ""
        click.echo(f"{short(index.resolve())}: {added.rows:,} texts; {added.new:,} new{known}{repaired}")
        if (approximate := added.approximate) is not None:
            shares = ", ".join(f"{name} {share:.3f}" for name, share in approximate.recall_at_10.items())
            of = f"of the 10 nearest texts of exact search, on {approximate.queries} texts of the index"
            click.echo(f"{approximate.engine} finds this share {of}: {shares}")
        if added.lost:
            problem = f"{added.lost:,} texts were dropped, of which no file was whole; damaged-* has what is left"
            raise DamagedError(located(short(index), None, problem, "Index these texts again"))


@main.command()
@click.argument("index", type=click.Path(path_type=Path, file_okay=False))
@click.argument("text", required=False)
@click.option("--queries", metavar="FILE", help="Search each text of a file as of disent embed.")
@click.option("--by", metavar="NAME", help="template, residual or meaning. Default: meaning, or the first there is.")
@click.option("-k", "hits", type=click.IntRange(1), default=10, show_default=True, help="Hits of each query.")
@click.option("--language", metavar="CODE", help="Language of the queries.")
@click.option("--other-language", is_flag=True, help="Leave out texts in the language of the query.")
@click.option("--only-language", metavar="CODE", help="Only texts in this language.")
@click.option("--except-same-text", is_flag=True, help="Leave out the query itself.")
@click.option("--exact", is_flag=True, help="Search exactly, whatever the engine of the index.")
@MOVED_HEAD
@_COLUMN
@ENCODER
@click.option("--format", "style", type=FORMATS, default="table", show_default=True)
@click.pass_context
def search(
    context: click.Context,
    index: Path,
    text: str | None,
    queries: str | None,
    by: str | None,
    hits: int,
    language: str | None,
    other_language: bool,
    only_language: str | None,
    except_same_text: bool,
    exact: bool,
    head: str | None,
    column: str,
    encoder: Path | None,
    style: Style,
) -> None:
    """Find the texts of an index that are nearest to TEXT: of the same template, residual or meaning.

    The same template is the same shape, the same residual the same values. TEXT may be - for lines of standard input.
    """
    with errors(context):
        if (text is None) == (queries is None):
            raise ValueError("name either a TEXT or --queries FILE")
        opened = open_index(index, head, encoder)
        asked = _queries(text, queries, column, language)
        results: list[list[Hit]] = [[]] * len(asked)
        request: SearchRequest = {
            "other_language": other_language,
            "only_language": only_language,
            "except_same_text": except_same_text,
            "exact": exact,
        }
        for code in dict.fromkeys(query.language for query in asked):
            numbers = [number for number, query in enumerate(asked) if query.language == code]
            texts = [asked[number].text for number in numbers]
            answers = opened.search(texts, by, hits, **{**request, "language": code})
            for number, answer in zip(numbers, answers, strict=True):
                results[number] = answer
        print_table(_table([query.text for query in asked], results, style), style)


def _queries(text: str | None, queries: str | None, column: str, language: str | None) -> list["Text"]:
    from disent_core.search.texts import Text

    if text is not None and text != "-":
        return [Text(text, language)]
    with input_file(queries or "-", column, language) as file:
        file.count()
        return list(file)


def _table(queries: Sequence[str], results: "Sequence[list[Hit]]", style: Style) -> "pa.Table":
    import pyarrow as pa

    rows = [{"query": query, **hit._asdict()} for query, hits in zip(queries, results, strict=True) for hit in hits]
    names = ["query", "score", "language", "text", "row", "text_key"]
    if style in ("table", "markdown"):
        names = ["score", "language", "text"] if len(queries) == 1 else names[:4]
    fields = {"score": pa.float32(), "row": pa.int64()}
    schema = pa.schema([(name, fields.get(name, pa.string())) for name in names])
    return pa.Table.from_pylist([{name: row[name] for name in names} for row in rows], schema)


# --- input ------------------------------------------------------------------------------------------------


@contextmanager
def input_file(name: str, column: str, language: str | None) -> Iterator["TextFile"]:
    """The texts of a file, or of standard input, which is copied to a temporary file to be read twice."""
    from disent_core.search.texts import TextFile, text_file

    if name != "-":
        yield text_file(Path(name), column=column, language=language)
        return
    with tempfile.NamedTemporaryFile(suffix=".txt") as copy:
        shutil.copyfileobj(sys.stdin.buffer, copy)
        copy.flush()
        yield TextFile(Path(copy.name), ".txt", "standard input", column, language)


@contextmanager
def progress(file: "TextFile", model: "Model") -> Iterator[tuple["TextFile", "tqdm"]]:
    """Read the texts once, so that no error comes after hours, and warn of languages that the head has not seen.

    Then show how many are done, and the time left.
    """
    from dataclasses import replace

    from tqdm import tqdm

    checked = replace(file, languages=model.languages)
    seconds = 0.1 if sys.stderr.isatty() else _LOG_SECONDS
    counts, seen = checked.counts(), model.description.get("languages")
    if seen and (unseen := sorted({language for language in counts if language} - {*seen})):
        click.echo(f"The head has not seen {', '.join(map(repr, unseen))}, but {', '.join(seen)}", err=True)
    with tqdm(total=counts.total(), unit=" texts", mininterval=seconds) as bar:
        yield checked, bar


_SHARED = """\
Whoever reaches {host} can search {index} and read its texts: there is no login.
Leave out --host, and only this machine can."""
_HOST = "Another address lets other machines search too, without a login."


@main.command()
@click.argument("index", type=click.Path(path_type=Path, file_okay=False))
@click.option("--port", type=click.IntRange(0, 65535), default=8900, show_default=True, help="0: any that is free.")
@click.option("--host", default="127.0.0.1", show_default=True, help=_HOST)
@MOVED_HEAD
@ENCODER
@click.pass_context
def serve(context: click.Context, index: Path, port: int, host: str, head: str | None, encoder: Path | None) -> None:
    """Serve a search page for an index: same shape, values or meaning as a sentence, side by side.

    INDEX is a folder of disent index. Ctrl-C ends it.
    """
    with errors(context):
        from disent_assets.web.search_page.app import is_shared, run, warm

        opened = open_index(index, head, encoder)
        warm(opened)
        if is_shared(host):
            click.echo(_SHARED.format(host=host, index=short(index.resolve())), err=True)
        about = {"head": opened.head_title, "sentences": f"{len(opened):,}", "index": str(short(index.resolve()))}
        run(opened, about, host, port, lambda address: click.echo(f"Search page: {address} (Ctrl-C ends it)"))
