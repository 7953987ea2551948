# SPDX-License-Identifier: MIT
"""The exceptions of hbmwire: one class for each kind of failure, all derived from Error.

Each class also derives from the built-in exception of its kind, so that ``except TimeoutError``
catches TimedOut, ``except ConnectionError`` catches PeerFailed, and so on.
"""

from __future__ import annotations

__all__ = [
    "Busy",
    "Cancelled",
    "DataMismatch",
    "Error",
    "Exhausted",
    "InvalidArgument",
    "NotFound",
    "NotSupported",
    "PeerFailed",
    "PermissionDenied",
    "ProtocolError",
    "SystemFailure",
    "TimedOut",
]


class Error(Exception):
    """Why an operation failed. ``str()`` is one sentence: stage, subject, cause and remedy.

    Attributes, all of them strings:

    code
        the kind of failure, for decisions of a program: "timed_out", "peer_failed", ...
    stage
        where it happened: "connect", "register_memory", "complete", ...
    hint
        the name of the remedy, for `hbmwire doctor explain HINT`; "none" without a remedy
    remedy
        the remedy as a sentence without its full stop; may be empty
    subject
        the device, host or name that it concerns; may be empty
    call
        the call or the check that failed
    number
        errno or the status of that call, decoded: "Connection refused (ECONNREFUSED, 111)"; empty
        without one
    """

    code = "system"
    stage = "configure"
    hint = "none"
    remedy = ""
    subject = ""
    call = ""
    number = ""

    def __reduce__(self) -> tuple[object, ...]:
        # Exceptions are pickled to travel between processes, and their attributes must travel, too.
        return (_again, (type(self), self.args, self.__dict__))


class InvalidArgument(Error, ValueError):
    """The program asked for something impossible."""

    code = "invalid_argument"


class NotFound(Error, LookupError):
    """There is no such device, library, host or name."""

    code = "not_found"


class NotSupported(Error):
    """This device, driver or kernel cannot do it."""

    code = "not_supported"


class PermissionDenied(Error, PermissionError):
    """The operating system, the peer or a path policy refused."""

    code = "permission_denied"


class Busy(Error):
    """Another owner has it."""

    code = "busy"


class Exhausted(Error):
    """There is no more memory, no more handles or no more room."""

    code = "exhausted"


class TimedOut(Error, TimeoutError):
    """The deadline passed."""

    code = "timed_out"


class PeerFailed(Error, ConnectionError):
    """The peer went away, reported a failure, or broke the protocol."""

    code = "peer_failed"


class ProtocolError(Error):
    """The peer speaks another protocol, or another version of it."""

    code = "protocol"


class DataMismatch(Error):
    """Bytes are not what they should be."""

    code = "data_mismatch"


class Cancelled(Error):
    """The program cancelled the operation. Not asyncio.CancelledError: the task goes on."""

    code = "cancelled"


class SystemFailure(Error):
    """Any other failure of a call; ``number`` says which."""

    code = "system"


_CLASSES: dict[str, type[Error]] = {
    one.code: one
    for one in (
        InvalidArgument,
        NotFound,
        NotSupported,
        PermissionDenied,
        Busy,
        Exhausted,
        TimedOut,
        PeerFailed,
        ProtocolError,
        DataMismatch,
        Cancelled,
        SystemFailure,
    )
}


def _again(kind: type[Error], arguments: tuple[object, ...], fields: dict[str, str]) -> Error:
    error = kind(*arguments)
    error.__dict__.update(fields)
    return error


def from_fields(
    code: str, stage: str, hint: str, remedy: str, subject: str, call: str, number: str, text: str
) -> Error:
    """The exception for an error of the library, from the error's parts."""
    error = _CLASSES.get(code, SystemFailure)(text)
    error.__dict__.update(
        code=code,
        stage=stage,
        hint=hint,
        remedy=remedy,
        subject=subject,
        call=call,
        number=number,
    )
    return error


def make(
    code: str, cause: str, remedy: str = "", *, stage: str = "configure", subject: str = ""
) -> Error:
    """An error that the package itself found: cause and remedy are sentences without full stops."""
    text = stage + (" " + subject if subject else "") + ": " + cause
    if remedy:
        text += "; " + remedy
    return from_fields(code, stage, "none", remedy, subject, cause, "", text)
