"""The command that prints what a shell needs to complete commands and options."""

import click

from disent_assets.cli.group import main


@main.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print what makes the Tab key complete commands and options.

    bash: add `eval "$(disent completion bash)"` to ~/.bashrc; zsh: `eval "$(disent completion zsh)"` to ~/.zshrc, after
    compinit; fish: `disent completion fish > ~/.config/fish/completions/disent.fish`.
    """
    from click.shell_completion import get_completion_class

    script = get_completion_class(shell)
    assert script is not None
    click.echo(script(main, {}, "disent", "_DISENT_COMPLETE").source())
