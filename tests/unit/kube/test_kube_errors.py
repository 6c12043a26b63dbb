import json

import pytest

from whereabouts_fast.kube import errors
from whereabouts_fast.kube.errors import from_answer


def answer(code: int, **status: object) -> errors.ApiError:
    body = json.dumps({"kind": "Status", "code": code, **status}).encode()
    return from_answer(code, body, verb="patch", resource="ippools.x")


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (400, "BadRequest", errors.ApiError),
        (401, "Unauthorized", errors.Unauthorized),
        (403, "Forbidden", errors.Forbidden),
        (404, "NotFound", errors.NotFound),
        (409, "Conflict", errors.Conflict),
        (409, "AlreadyExists", errors.AlreadyExists),
        (410, "Expired", errors.Gone),
        (410, "Gone", errors.Gone),
        (422, "Invalid", errors.Invalid),
        (429, "TooManyRequests", errors.TooManyRequests),
        (500, "InternalError", errors.ServerError),
        (504, "Timeout", errors.ServerError),
    ],
)
def test_each_status_has_its_error(code: int, reason: str, kind: type[errors.ApiError]) -> None:
    error = answer(code, reason=reason, message="why")
    assert type(error) is kind
    assert (error.status, error.reason, error.message) == (code, reason, "why")
    assert str(error) == f"{reason} ({code}): why"


def test_forbidden_names_verb_and_resource() -> None:
    error = answer(403, reason="Forbidden", message="no")
    assert isinstance(error, errors.Forbidden)
    assert (error.verb, error.resource) == ("patch", "ippools.x")


def test_the_server_s_wish_to_wait_is_kept_from_header_or_details() -> None:
    body = b'{"kind":"Status","details":{"retryAfterSeconds":7}}'
    assert from_answer(429, body, verb="get", resource="pods").retry_after == 7
    by_header = from_answer(429, b"{}", verb="get", resource="pods", retry_after="3")
    assert by_header.retry_after == 3
    date = from_answer(429, b"{}", verb="get", resource="pods", retry_after="Fri, 31 Dec 1999")
    assert date.retry_after is None


@pytest.mark.parametrize("body", [b"<html>oops</html>", b"", b"[1]", b"null", b'"x"', b"\xff\xfe"])
def test_a_page_that_is_not_the_api_server_s_is_an_error_that_quotes_it(body: bytes) -> None:
    error = from_answer(502, body, verb="get", resource="pods")
    assert type(error) is errors.ServerError
    assert "answer is not from the API server" in error.message


def test_a_long_page_is_quoted_in_part() -> None:
    error = from_answer(502, b"x" * 100_000, verb="get", resource="pods")
    assert len(error.message) < 500
