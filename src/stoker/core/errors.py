"""Every error Stoker raises on purpose, with what a client or a shell should see of it.

A class carries its HTTP status and OpenAI error type; an instance carries the message, the code and
the parameter at fault. `ErrorInfo` is the same thing as data, for crossing a process boundary.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ErrorInfo:
    """An error as data: what the wire formats and the process boundary carry."""

    message: str
    type: str
    status: int
    code: str | None = None
    param: str | None = None
    retry_after_s: int | None = None


class StokerError(Exception):
    """Base of every deliberate error."""

    status = 500
    type = "server_error"
    default_code: str | None = None
    retry_after_s: int | None = None

    def __init__(self, message: str, *, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.code = code or self.default_code

    @property
    def info(self) -> ErrorInfo:
        return ErrorInfo(
            self.message, self.type, self.status, self.code, self.param, self.retry_after_s
        )


class ReportedError(StokerError):
    """An `ErrorInfo` that came from another process, raised again on this side."""

    def __init__(self, info: ErrorInfo) -> None:
        super().__init__(info.message, param=info.param, code=info.code)
        self.status = info.status
        self.type = info.type
        self.retry_after_s = info.retry_after_s


class InvalidRequest(StokerError):
    """The client sent something that can never work."""

    status = 400
    type = "invalid_request_error"


class ContextLengthExceeded(InvalidRequest):
    """The prompt leaves no room for one token in the model's context."""

    default_code = "context_length_exceeded"


class ExceedsCapacity(InvalidRequest):
    """The request needs more KV pages than the whole pool has, so waiting would be for ever."""

    default_code = "kv_capacity_exceeded"


class Unauthorized(StokerError):
    status = 401
    type = "authentication_error"
    default_code = "invalid_api_key"


class NotFound(StokerError):
    status = 404
    type = "not_found_error"


class ModelNotFound(NotFound):
    default_code = "model_not_found"


class Overloaded(StokerError):
    """The queue is full; the same request may work in a moment."""

    status = 503
    type = "overloaded_error"
    default_code = "queue_full"
    retry_after_s = 1


class Draining(Overloaded):
    """The server is stopping and takes no new work."""

    default_code = "draining"
    retry_after_s = 5


class EngineDead(StokerError):
    """The engine process ended or hangs; the supervisor is restarting it."""

    status = 503
    default_code = "engine_dead"
    retry_after_s = 2


class RequestFailed(StokerError):
    """One request failed inside the engine; the others go on."""

    default_code = "request_failed"


class RequestAborted(StokerError):
    """Somebody other than the client ended this request, by its id."""

    status = 409
    type = "request_aborted"
    default_code = "aborted"


class StartupError(StokerError):
    """The process cannot start as asked: printed as one line, exit code 2."""


class ConfigError(StartupError):
    """An option has a value that cannot work."""


class CheckpointError(StartupError):
    """A model file is missing, damaged, of an unknown kind or too large for this machine."""
