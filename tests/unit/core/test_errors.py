"""An error keeps its status, type, code and parameter on the way to another process."""

from __future__ import annotations

from stoker.core.errors import ContextLengthExceeded, Overloaded, ReportedError, StokerError


def test_an_error_reported_by_another_process_is_the_same_error() -> None:
    for error in (ContextLengthExceeded("too long", param="prompt"), Overloaded("full")):
        again = ReportedError(error.info)
        assert isinstance(again, StokerError)
        assert again.info == error.info
        assert str(again) == str(error)


def test_code_falls_back_to_the_class() -> None:
    assert Overloaded("full").info.code == "queue_full"
    assert Overloaded("full", code="other").info.code == "other"
    assert Overloaded("full").info.retry_after_s == 1
    assert StokerError("bug").info.code is None
