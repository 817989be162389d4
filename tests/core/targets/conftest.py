"""Fixtures of the tests of targets."""

import pytest
from annotated import REAL, read
from places import why_absent


@pytest.fixture(scope="module", params=["en-US", "de-DE", "ja-JP"])
def published(request):
    if not REAL.is_file():
        pytest.skip(why_absent(REAL))
    language = request.param[:2]
    return language, read(REAL, request.param)
