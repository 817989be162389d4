"""`python -m disent_assets.cli`."""

from disent_assets.cli import main

main()
