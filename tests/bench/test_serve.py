"""The load test answers every client, and knows a client that was starved."""

import sys

import pytest

import disent
from bench import serve


def test_clients_ask_until_the_end_and_all_are_answered(tmp_path, monkeypatch, capsys):
    disent.Index.build(tmp_path / "index", disent.load(), ["wake me up at nine", "play some jazz"])
    monkeypatch.setattr(
        sys, "argv", ["serve", str(tmp_path / "index"), "--clients", "3", "--seconds", "2", "--half-open", "2"]
    )
    serve.main()
    assert "statuses: {200: " in capsys.readouterr().out


CASES = [([5, 5, 5], False), ([4, 9, 9], False), ([1, 9, 9], True), ([0, 0], True)]


@pytest.mark.parametrize(("counts", "is_starved"), CASES)
def test_a_client_with_a_few_answers_where_others_have_many_is_starved(counts, is_starved):
    assert serve.is_starved(counts) is is_starved
