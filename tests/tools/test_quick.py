"""`make quick` runs the tests that a change can break, nearest first."""

from pathlib import Path

from tools.quick import MOST_FILES, ROOT, imported_modules, selected

TESTS = sorted(path.relative_to(ROOT) for path in (ROOT / "tests").rglob("test_*.py"))


def test_a_changed_module_selects_the_tests_that_import_it():
    chosen = selected([Path("disent_core/losses/contrastive.py")], TESTS)
    assert chosen[0] == Path("tests/core/losses/test_contrastive.py")
    assert len(chosen) <= MOST_FILES


def test_a_changed_test_is_selected_wherever_it_lies_and_a_page_selects_no_test():
    test = Path("tests/end_to_end/test_readme.py")
    assert selected([test], TESTS) == [test]
    assert selected([Path("docs/use.md")], TESTS) == []


def test_imports_inside_functions_count():
    source = "def f():\n    from a.b import c\n    import d.e"
    assert set(imported_modules(source)) == {"a.b", "a.b.c", "d.e"}
