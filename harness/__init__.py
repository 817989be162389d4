"""Long-running tests and tests of other systems: kills, fuzzing, Ray, Slurm, Postgres, fresh installations."""
