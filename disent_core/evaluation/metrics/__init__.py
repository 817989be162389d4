"""Functions of arrays: ranking, statistics, confidence intervals and paired tests."""
