"""Requests to the API server, each with what its outcome is known to be.

A caller learns one of four things: an answer (`Reply`), that the same may be tried later
(`errors.Later`, nothing was changed), that nobody knows (`UnknownOutcome`, only for a write), or
that trying again is useless (`CniError`). Nothing here sleeps, for the caller may hold a lock.
"""

from __future__ import annotations

import time

from cni import errors, http, jsontext, kubeconfig, tls
from cni.deadline import Deadline
from cni.errors import CniError, Later
from cni.version import USER_AGENT

_REQUEST_LIMIT = 5.0  # seconds; a request may be made under the lock that others wait for
_UNAUTHORIZED_LIMIT = 1.5  # seconds between the first 401 and giving up
_UNAUTHORIZED_PAUSE = 0.1

_METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"


_JSON = {"Accept": "application/json", "Content-Type": "application/json"}
_VERBS = {"GET": "get", "PATCH": "patch", "POST": "create", "DELETE": "delete"}


class UnknownOutcome(Exception):  # noqa: N818 - not an error: the change may stand
    """A write was sent and no usable answer came back."""

    def __init__(self, failure: CniError, delay: float | None) -> None:
        super().__init__(failure.msg)
        self.failure = failure
        self.delay = delay


class Reply:
    """Status 200, 404, 409 or 422, and the JSON object that came with it."""

    __slots__ = ("data", "status")

    def __init__(self, status: int, data: dict[str, object]) -> None:
        self.status = status
        self.data = data

    @property
    def message(self) -> str:
        """Return the server's own words about a status that is not 200."""
        message = self.data.get("message")
        return message if isinstance(message, str) else ""

    @property
    def uid(self) -> str:
        """Return the uid of the object that came back."""
        metadata = self.data.get("metadata")
        uid = metadata.get("uid") if isinstance(metadata, dict) else None
        return uid if isinstance(uid, str) else ""


class ApiServer:
    """One API server, over one kept connection."""

    __slots__ = ("_connection", "_refused", "_refused_at", "access", "contact", "deadline")

    def __init__(self, access: kubeconfig.Access, deadline: Deadline) -> None:
        self.access = access
        self.deadline = deadline
        self._connection: tls.Connection | None = None
        self._refused: tuple[str, bytes, bytes] | None = None
        self._refused_at = 0.0
        self.contact = 0.0  # monotonic moment of the last answer to rely on

    def connect(self) -> None:
        """Open the connection ahead of the first request; one that fails is opened later."""
        if self._connection is None:
            try:
                self._connection = tls.connect(self.access, self.deadline)
            except tls.NoConnectionError:
                pass

    def get(self, path: str, what: str, *, metadata_only: bool = False) -> Reply:
        """Read an object or list; `what` names it ("ippools blue-n1"). Raises Later, CniError."""
        accept = _METADATA_ONLY if metadata_only else "application/json"
        try:
            return self._request("GET", path, what, b"", {"Accept": accept})
        except UnknownOutcome as unknown:
            # Reading changes nothing, so it may be done again, at once where a connection that
            # had been kept open was found cut.
            raise Later(unknown.failure, unknown.delay) from None

    def patch(self, path: str, what: str, ops: list[dict[str, object]]) -> Reply:
        """Send a JSON Patch; the answer holds metadata only. Raises as the module says."""
        headers = {"Accept": _METADATA_ONLY, "Content-Type": "application/json-patch+json"}
        return self._request("PATCH", path, what, jsontext.encode(ops), headers)

    def create(self, path: str, what: str, body: dict[str, object]) -> Reply:
        """Create an object; status 409 says that there is one. Raises as the module says."""
        return self._request("POST", path, what, jsontext.encode(body), _JSON)

    def delete(self, path: str, what: str, uid: str) -> Reply:
        """Delete the object with this uid; status 409 says that it is another one by now."""
        options = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": uid}}
        return self._request("DELETE", path, what, jsontext.encode(options), _JSON)

    def _request(
        self, method: str, path: str, what: str, body: bytes, headers: dict[str, str]
    ) -> Reply:
        self._credentials(what)
        # One request is repeated at once where a connection kept open turns out to be gone.
        for last in (False, True):
            try:
                return self._exchange(method, path, what, body, headers)
            except tls.NoConnectionError as error:
                if last:
                    raise Later(self._unreachable(str(error))) from None
        raise AssertionError

    def _exchange(
        self, method: str, path: str, what: str, body: bytes, headers: dict[str, str]
    ) -> Reply:
        limit = Deadline(time.monotonic(), self.deadline.limit(_REQUEST_LIMIT))
        connection = self._connection
        if connection is None:
            try:
                connection = self._connection = tls.connect(self.access, limit)
            except tls.NoConnectionError as error:
                raise Later(self._unreachable(str(error))) from None
        try:
            connection.write(self._encode(method, path, body, headers), limit)
        except OSError as error:
            self.close()
            raise tls.NoConnectionError(error.strerror or str(error)) from None
        try:
            answer = http.read_answer(lambda: connection.read(limit))
        except (OSError, http.HttpError) as error:
            self.close()
            why = f"the answer {error}" if isinstance(error, http.HttpError) else str(error)
            failure = self._unreachable(f"{method} {what}: {why}")
            raise UnknownOutcome(failure, 0.0 if connection.reused else None) from None
        connection.reused = True
        if answer.closing:
            self.close()
        return self._judge(method, what, answer)

    def _encode(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> bytes:
        access = self.access
        host = f"[{access.host}]" if ":" in access.host else access.host
        full = {"Host": f"{host}:{access.port}", "User-Agent": USER_AGENT, **headers}
        if access.token:
            full["Authorization"] = "Bearer " + access.token
        try:
            return http.encode(method, access.prefix + path, full, body)
        except ValueError as error:
            raise CniError(
                errors.CONFIGURATION,
                f"the credential in {access.credential} cannot be sent: {error}",
                "replace it by a plain token",
            ) from None

    def _judge(self, method: str, what: str, answer: http.Answer) -> Reply:
        """Tell what an answer means; a page that some proxy made up is not the server's word."""
        status = answer.status
        data: dict[str, object] | None = None
        if "json" in answer.headers.get("content-type", ""):
            try:
                data = jsontext.parse_object(answer.body)
            except jsontext.JsonError:
                data = None
        message = data.get("message") if data else None
        told = message if isinstance(message, str) else ""
        if status == 401:
            self._refuse(what)
        self._refused = None
        if status == 403 and data is not None:
            verb = _VERBS[method]
            raise CniError(
                errors.REFUSED,
                f"the API server forbids {verb} of {what}: {told}",
                f"grant {verb} on {what.split(' ', 1)[0]} to the identity in "
                f"{self.access.credential}",
            )
        if data is not None and (
            200 <= status < 300 or (status in (404, 409, 422) and data.get("kind") == "Status")
        ):
            self.contact = time.monotonic()
            return Reply(200 if status < 300 else status, data)
        if data is not None and 400 <= status < 500 and status not in (404, 408, 409, 422, 429):
            raise CniError(
                errors.REFUSED,
                f"the API server answered {method} {what} with {status}: {told}",
                f"check the server and prefix in {self.access.path}",
            )
        kind = answer.headers.get("content-type", "no content type").partition(";")[0]
        shown = told or f"{kind} of {len(answer.body)} bytes"
        failure = CniError(
            errors.TRY_AGAIN,
            f"the API server answered {method} {what} with {status}: {shown}",
            "are the custom resources of whereabouts-fast installed?"
            if status == 404
            else f"is {self.access.host} port {self.access.port} the API server, and healthy?",
        )
        delay = _retry_after(answer.headers.get("retry-after", ""))
        if method == "GET" or status == 429:
            raise Later(failure, delay)
        raise UnknownOutcome(failure, delay)

    def _credentials(self, what: str) -> None:
        """After a 401: take a replaced credential, or have the caller wait for one."""
        if self._refused is None:
            return
        self.access = kubeconfig.load(self.access.path)
        waited = time.monotonic() - self._refused_at
        if self.access.identity() != self._refused or waited > _UNAUTHORIZED_LIMIT / 2:
            self.close()
            return
        raise Later(self._unauthorized(what), _UNAUTHORIZED_PAUSE)

    def _refuse(self, what: str) -> None:
        now = time.monotonic()
        self._refused_at = self._refused_at or now
        refused = self.access.identity()
        if now - self._refused_at > _UNAUTHORIZED_LIMIT or self._refused == refused:
            raise self._unauthorized(what)
        self._refused = refused
        raise Later(self._unauthorized(what), 0.0)

    def _unauthorized(self, what: str) -> CniError:
        return CniError(
            errors.REFUSED,
            f"the API server does not accept the credential in {self.access.credential} (401, "
            f"asked for {what})",
            "replace the token or client certificate in that file",
        )

    def _unreachable(self, why: str) -> CniError:
        return CniError(
            errors.TRY_AGAIN,
            f"the API server at {self.access.host} port {self.access.port} gives no answer: {why}",
            f"is it running, and does {self.access.path} name the right server?",
        )

    def close(self) -> None:
        """Drop the connection; the next request opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _retry_after(text: str) -> float | None:
    """Read a Retry-After in seconds; its other form, a date, is no use to us."""
    return float(text) if text.isascii() and text.isdigit() and len(text) < 7 else None
