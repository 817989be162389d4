"""Commands that report on a run: what is stale, the HTML report, the tables of the docs, the texts of an encoder."""

from pathlib import Path

import click

from disent_assets.cli.group import errors, main


@main.command()
@click.option("--all", "show_all", is_flag=True, help="Show every partition, fresh ones included.")
@click.pass_context
def status(context: click.Context, show_all: bool) -> None:
    """Show what is fresh, stale or missing, and why."""
    with errors(context):
        from disent_assets.asset_state import record_states
        from disent_assets.definitions import build
        from disent_assets.homes import is_read_only
        from disent_assets.instance import open_copy, open_instance
        from disent_assets.published_files import observe
        from disent_assets.resources import open_for_work, open_to_look
        from disent_assets.status import states, summary

        workspace = open_to_look()
        if is_read_only(workspace.home):
            opened, find_states = open_copy, states
        else:
            workspace = open_for_work()
            opened, find_states = open_instance, record_states
        definitions = build(workspace)
        with opened(workspace.home) as instance:
            observe(workspace, instance)
            click.echo(summary(find_states(workspace, definitions, instance), show_all=show_all))


@main.command()
@click.option("--output", type=click.Path(path_type=Path, dir_okay=False), help="Default: DISENT_HOME/report.html.")
@click.option("--title", default="disent: report of a run", show_default=True)
@click.pass_context
def report(context: click.Context, output: Path | None, title: str) -> None:
    """Write tables, pictures and case studies of the run as one self-contained HTML file."""
    with errors(context):
        from disent_assets.resources import open_workspace
        from disent_assets.run_report import write_report

        workspace = open_workspace()
        path = _new_file(output) if output else workspace.home / "report.html"
        write_report(workspace, path, title)
        click.echo(path)


@main.command()
@click.argument("configs", metavar="[CONFIG]...", nargs=-1)
@click.option("--home", "homes", multiple=True, metavar="CONFIG=FOLDER", help="The folder with the results of CONFIG.")
@click.option("--run", "is_run", is_flag=True, help="First materialise what is stale or missing in each CONFIG.")
@click.option(
    "--plan",
    "is_plan",
    is_flag=True,
    help="Only say what --run would make, how long it would take and which corpora are missing.",
)
@click.pass_context
def results(
    context: click.Context, configs: tuple[str, ...], homes: tuple[str, ...], is_run: bool, is_plan: bool
) -> None:
    """For maintainers: rewrite README and docs, their tables of results from warehouses, docs/sql.md from the demo's.

    A CONFIG is named as the pages do, such as configs/massive_headline.toml; --run takes all of them if none is named.
    The results of configs/NAME.toml are expected in data/NAME, those of disent.toml in data. Without a warehouse a
    table keeps its rows, and so do methods that a warehouse lacks; rows of earlier code are marked. The same command
    goes on with a run that was stopped.
    """
    with errors(context):
        from disent_assets.questions import write_answers
        from disent_assets.resources import PROJECT
        from disent_assets.results import configurations, default_homes, write_results
        from disent_assets.results_run import ship_seconds

        given = default_homes(PROJECT) | dict(map(_of_configuration, homes))
        folders = {config: folder.resolve() for config, folder in given.items()}
        if unknown := sorted(set(configs) - folders.keys()):
            raise ValueError(f"{', '.join(unknown)}: no such configuration. There are {', '.join(sorted(folders))}")
        if is_run or is_plan:
            _run(PROJECT, {name: folders[name] for name in configs or configurations(PROJECT)}, is_plan=is_plan)
        if is_plan:
            return
        for line in write_results(PROJECT, folders):
            click.echo(line)
        ship_seconds(PROJECT, {config: folders[config] for config in configurations(PROJECT)})
        demo = folders["disent.toml"] / "warehouse.duckdb"
        if demo.is_file():
            click.echo(f"sql.md: {write_answers(PROJECT / 'docs' / 'sql.md', demo)} answers from {demo.parent}")


def _run(project: Path, homes: dict[str, Path], *, is_plan: bool) -> None:
    """Say what is to do in each configuration and how long it takes, then do it."""
    from disent_assets.progress import duration
    from disent_assets.results_run import materialize, outlook

    found = [outlook(project, config, home) for config, home in homes.items()]
    for one in found:
        click.echo(one)
    known = [one.seconds for one in found if one.seconds is not None]
    if len(found) == len(known) > 1:
        click.echo(f"in all about {duration(sum(known))}")
    if is_plan:
        return
    if lacking := [one.config for one in found if one.absent]:
        raise ValueError(f"{', '.join(lacking)}: put the missing corpora there first. Nothing was run")
    for one in found:
        materialize(project, one.config, one.home)


@main.command()
@click.argument("output", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--encoder", required=True, metavar="NAME", help="The encoder's name in [[encoders]].")
@click.option("--missing", is_flag=True, help="Only texts that the files of imported vectors lack.")
@click.pass_context
def texts(context: click.Context, output: Path, encoder: str, missing: bool) -> None:
    """Write the texts that an encoder has to embed, so that another program can embed them.

    OUTPUT is a .parquet or .jsonl file with the columns text_key, language and text. Add a column `vector`, and an
    encoder of kind "vectors" can read it. `disent materialize '+targets'` makes the texts.
    """
    with errors(context):
        from disent_assets.resources import open_workspace
        from disent_core.experiment.embeddings import texts_of, write_texts

        _new_file(output)
        listed = texts_of(open_workspace(), encoder, only_missing=missing)
        write_texts(listed, output)
        click.echo(f"{len(listed)} texts in {output}")


def _of_configuration(home: str) -> tuple[str, Path]:
    """The two parts of CONFIG=FOLDER."""
    config, _, folder = home.partition("=")
    if not config or not folder:
        raise ValueError(f"--home {home}: this is not CONFIG=FOLDER, such as configs/massive.toml=data/massive")
    return config, Path(folder).expanduser()


def _new_file(path: Path) -> Path:
    """The path, unless it is a device, a pipe or a folder: the file there is replaced as a whole."""
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is not a regular file, so it can't be replaced")
    if not path.absolute().parent.is_dir():
        raise ValueError(f"{path}: the folder {path.parent} does not exist. Make it, or choose another")
    return path
