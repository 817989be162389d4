"""Programs that test what takes hours or other machines: kills, fuzzing, Ray, Slurm, Postgres, fresh installations."""
