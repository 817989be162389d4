"""Arrays in, numbers out: ranking, statistics, intervals and paired tests."""
