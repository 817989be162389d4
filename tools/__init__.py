"""Maintainers' programs, not part of any wheel: tables of results, pages made from the code, the site."""
