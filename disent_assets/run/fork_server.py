"""Imported first in the process that workers are forked from: it ends with the command, and its workers with it."""

from disent_core.shards.processes import killed_with_parent

killed_with_parent()
