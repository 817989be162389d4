"""A server that is away: who waits, for how long, and what is logged."""

import pytest

from disent_core.storage.patience import LONGEST_PAUSE, Patience, backoff


def server(*answers):
    """A request that gets these answers, and raises those that are errors."""
    left = iter(answers)

    def request():
        answer = next(left)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return request


def is_away(error):
    return isinstance(error, ConnectionError)


def test_a_server_that_has_answered_is_waited_for_and_the_log_has_a_line_when_it_goes_and_one_when_it_comes(caplog):
    pauses, clock = [], iter([100.0, 101.0, 105.0, 108.0])
    patience = Patience("the store", clock=lambda: next(clock), pause=pauses.append)
    request = server("first", *[ConnectionError("refused")] * 3, "second")
    assert [patience.ask(request, is_away) for _ in range(2)] == ["first", "second"]
    assert len(pauses) == 3
    assert caplog.messages == [
        "the store does not answer: waiting for it, up to 10 minutes",
        "the store answers again, after 8 s",
    ]


def test_a_server_that_has_never_answered_is_an_error_at_once(caplog):
    patience = Patience("the store", pause=lambda _: pytest.fail("it waits"))
    with pytest.raises(ConnectionError):
        patience.ask(server(ConnectionError("refused")), is_away)
    assert caplog.messages == []


def test_an_error_of_a_server_that_answers_is_raised_at_once_and_shows_that_it_answers():
    patience = Patience("the store", pause=lambda _: None)
    with pytest.raises(PermissionError):
        patience.ask(server(PermissionError("denied")), is_away)
    assert patience.ask(server(ConnectionError("refused"), "answer"), is_away) == "answer"


def test_all_requests_of_a_process_wait_ten_minutes_together():
    clock = iter([0.0, 600.0, 601.0, 602.0, 603.0])
    patience = Patience("the store", has_answered=True, clock=lambda: next(clock), pause=lambda _: None)
    request = server(*[ConnectionError("refused")] * 4, "answer")
    for _ in range(2):
        with pytest.raises(ConnectionError):
            patience.ask(request, is_away)
    assert patience.ask(request, is_away) == "answer"
    assert patience.away_since is None


def test_pauses_double_up_to_a_limit_and_are_spread():
    for tries, limit in ((0, 1.0), (1, 2.0), (2, 4.0), (3, LONGEST_PAUSE), (10_000, LONGEST_PAUSE)):
        pauses = [backoff(tries, first=1.0, longest=LONGEST_PAUSE) for _ in range(200)]
        assert max(pauses) <= limit < 2 * max(pauses)
        assert min(pauses) < limit / 2
