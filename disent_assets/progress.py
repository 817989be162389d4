"""Show what a run of many steps is doing."""

import sys

from tqdm import tqdm

from disent_assets.plan import Step
from disent_assets.run_step import Outcome
from disent_assets.runner import Report
from disent_core.text import printable


class Progress(Report):
    """A progress bar over steps, with the log lines of the library above it."""

    def __init__(self, total: int) -> None:
        shape = "{desc}: {n_fmt}/{total_fmt} steps [{elapsed}]"
        self.bar = tqdm(total=total, file=sys.stderr, bar_format=shape)

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.close()

    def begin(self, step: Step) -> None:
        """Show the name of the step."""
        self.bar.set_description(str(step))

    def end(self, step: Step, outcome: Outcome) -> None:
        """Count the step."""
        self.bar.update()

    def block(self, step: Step) -> None:
        """Count the step."""
        self.bar.update()

    def log(self, step: Step, level: int, text: str) -> None:
        """Write a line above the bar."""
        self.bar.write(f"  {printable(text)}", file=sys.stderr)

    def tick(self) -> None:
        """The bar moves with the steps only."""
