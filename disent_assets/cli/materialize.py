"""`disent materialize`: run assets, with their progress."""

import logging
import sys
import time
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    import dagster as dg
    from tqdm import tqdm

from disent_assets.cli.group import errors, main
from disent_core.text import printable


@main.command()
@click.argument("selection", required=False)
@click.option("--partition", metavar="KEY", help="Only this language or pair, e.g. de or en-de.")
@click.pass_context
def materialize(context: click.Context, selection: str | None, partition: str | None) -> None:
    """Run assets in this process; assets that are up to date are not computed again.

    SELECTION is in Dagster's syntax: 'key:heads/*', 'key:evaluation/*', '+key:warehouse/database'. Default: everything.
    """
    with errors(context):
        from disent_assets.definitions import build
        from disent_assets.instance import RunError, open_instance, plan
        from disent_assets.instance import materialize as run
        from disent_assets.published_files import observe
        from disent_assets.resources import open_workspace

        started = time.monotonic()
        workspace = open_workspace()
        definitions = build(workspace)
        steps = plan(definitions, selection, partition)
        with open_instance(workspace.home) as instance, _Progress(len(steps)) as progress:
            observe(workspace, instance)
            for step in steps:
                progress.begin(str(step))
                try:
                    progress.end(run(definitions, step, instance))
                except RunError as failure:
                    progress.close()
                    click.echo(f"disent: {printable(str(failure))}", err=True)
                    raise SystemExit(1) from failure
        click.echo(progress.summary(time.monotonic() - started))


class _Progress:
    """A progress bar over runs, with the log lines of the library beneath it."""

    def __init__(self, total: int) -> None:
        from tqdm import tqdm

        shape = "{desc}: {n_fmt}/{total_fmt} runs [{elapsed}]"  # no remaining time, because runs differ too much
        self.bar = tqdm(total=total, file=sys.stderr, bar_format=shape)
        self.recomputed = self.reused = self.encoded = self.steps = 0
        self.handler = _BarHandler(self.bar)

    def __enter__(self) -> "_Progress":
        core = logging.getLogger("disent_core")
        core.addHandler(self.handler)
        core.setLevel(logging.INFO)
        core.propagate = False
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger("disent_core").removeHandler(self.handler)
        self.bar.close()

    def begin(self, name: str) -> None:
        """Show the name of the run that starts."""
        self.bar.set_description(name)

    def end(self, result: "dg.ExecuteInProcessResult") -> None:
        """Add the results of a run to the counts."""
        texts: dict[str, int] = {}
        for event in result.get_asset_materialization_events():
            metadata: dict[str, Any] = {key: value.value for key, value in event.materialization.metadata.items()}
            self.recomputed += bool(metadata.get("recomputed"))
            self.reused += not metadata.get("recomputed")
            texts[event.node_name] = metadata.get("encoded", 0)  # vectors and states come from one forward pass
            self.steps += metadata.get("steps", 0)
        self.encoded += sum(texts.values())
        self.bar.update()

    def close(self) -> None:
        """Close the bar."""
        self.bar.close()

    def summary(self, seconds: float) -> str:
        """The counts of all runs."""
        return (
            f"{self.recomputed} tables made, {self.reused} up to date; {self.encoded} texts encoded, "
            f"{self.steps} steps trained; {seconds:.1f} s"
        )


class _BarHandler(logging.Handler):
    def __init__(self, bar: "tqdm") -> None:
        super().__init__()
        self.bar = bar

    def emit(self, record: logging.LogRecord) -> None:
        self.bar.write(f"  {printable(record.getMessage())}", file=sys.stderr)
