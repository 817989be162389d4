"""Programs of maintainers, which no wheel has: tables of results, pages that are made from the code, the site."""
