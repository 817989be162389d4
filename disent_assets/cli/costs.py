"""`disent costs`: what the steps of a run take."""

import click

from disent_assets.cli.answers import FORMATS, Style, answer, print_table, require_views
from disent_assets.cli.group import errors, main

SHOWN = 20
"""Rows of a table."""
BY = {
    "stage": ("stage",),
    "encoder": ("encoder",),
    "method": ("method", "stage"),
    "step": ("asset", "partition"),
}
"""What a row stands for -> its columns."""
COSTS = """
select
    {names},
    count(*) as steps,
    round(sum(processor_seconds), 2) as processor_seconds,
    round(sum(share_of_all), 4) as share,
    round(sum(seconds), 2) as seconds,
    cast(round(max(peak_memory) / 1e6) as bigint) as peak_megabytes,
    sum(texts) as texts_encoded,
    sum(steps) as steps_trained
from costs
group by all
order by sum(processor_seconds) desc, {names}"""
TOTAL = """
select
    count(*) as steps,
    sum(processor_seconds) as processor_seconds,
    sum(seconds) as seconds,
    (
        select count(*) from asset_state anti join costs using (asset, partition)
        where method is not null and state in ('fresh', 'stale')
    ) as unknown
from costs"""


@main.command()
@click.option("--by", type=click.Choice(list(BY)), default="step", show_default=True, help="What a row stands for.")
@click.option("--format", "style", type=FORMATS, default="table", show_default=True)
@click.pass_context
def costs(context: click.Context, by: str, style: Style) -> None:
    """Show what the steps took when they last made something, the largest first.

    A table has 20 rows and the sum of all; the other formats have every row. Seconds of steps that ran side by side
    add up to more than the run took.
    """
    with errors(context):
        require_views()
        rows = answer(COSTS.format(names=", ".join(BY[by])))
        print_table(rows.slice(0, SHOWN) if style == "table" else rows, style)
        if style == "table":
            click.echo("\n" + "\n".join(_total(len(rows) - SHOWN)))


def _total(left_out: int) -> list[str]:
    """What all steps took, and what is not known."""
    (total,) = answer(TOTAL).to_pylist()
    took = f"{total['processor_seconds'] or 0:,.1f} processor seconds, {total['seconds'] or 0:,.1f} s of the clock"
    lines = [f"{total['steps']:,} step{'s' * (total['steps'] != 1)}: {took}"]
    if left_out > 0:
        lines.append(f"{left_out:,} smaller rows are not shown (--format csv)")
    if total["unknown"]:
        made = "were made by a version that did not measure costs"
        lines.append(f"{total['unknown']:,} heads and metrics {made}; they are not in these sums")
    return lines
