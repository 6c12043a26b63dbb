"""A TLS connection by the C modules alone: _socket and _ssl, without ssl.py's enums."""

from __future__ import annotations

import _socket
import _thread

from cni import errors
from cni.deadline import Deadline
from cni.errors import CniError
from cni.kubeconfig import Access

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _ssl
    from typing import Any

    Address = tuple[int, tuple[str, int] | tuple[str, int, int, int]]

_CONNECT_LIMIT = 5.0  # seconds for one address


class NoConnectionError(Exception):
    """The server cannot be reached just now; nothing was sent."""


class _Socket(_socket.socket):
    __slots__ = ("__weakref__",)  # _ssl holds its socket by a weak reference


class Connection:
    """One open connection; `end` of each call is a moment on the monotonic clock."""

    __slots__ = ("_sock", "_tls", "reused")

    def __init__(self, sock: _Socket, tls: Any) -> None:
        self._sock = sock
        self._tls = tls
        self.reused = False

    def write(self, data: bytes, limit: Deadline) -> None:
        """Send all bytes; raises OSError, after which the server has no whole request."""
        view = memoryview(data)
        while view:
            self._arm(limit)
            view = view[self._tls.write(view) :]

    def read(self, limit: Deadline) -> bytes:
        """Return the next bytes, b"" at the end; raises OSError."""
        self._arm(limit)
        data: bytes = self._tls.read(65536)
        return data

    def close(self) -> None:
        """Close without the farewell of TLS: the server has nothing to say that we would read."""
        self._sock.close()

    def _arm(self, limit: Deadline) -> None:
        left = limit.left()
        if left <= 0:
            raise TimeoutError("timed out")
        self._sock.settimeout(left)


def connect(access: Access, deadline: Deadline) -> Connection:
    """Open a verified connection.

    Raises NoConnectionError for what may pass, CniError for a certificate not to be trusted.
    """
    context = _context(access)
    last = "has no address"
    for family, address in _addresses(access, deadline):
        sock = _Socket(family, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
        try:
            sock.settimeout(max(0.001, deadline.limit(_CONNECT_LIMIT)))
            sock.connect(address)
            sock.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_NODELAY, 1)
            return Connection(sock, _handshake(context, sock, access))
        except OSError as error:
            sock.close()
            last = error.strerror or str(error)
    raise NoConnectionError(last)


def _addresses(access: Access, deadline: Deadline) -> list[Address]:
    host, port = access.host, access.port
    if ":" in host:
        return [(_socket.AF_INET6, (host, port, 0, 0))]
    try:
        _socket.inet_pton(_socket.AF_INET, host)
    except OSError:
        return _resolve(host, port, deadline)
    return [(_socket.AF_INET, (host, port))]


def _resolve(host: str, port: int, deadline: Deadline) -> list[Address]:
    # The resolver takes no time-out: it runs in a thread that may be left behind.
    found: list[Address] = []
    trouble = ["the name was not resolved in time"]
    done = _thread.allocate_lock()
    done.acquire()

    def look_up() -> None:
        try:
            # As bytes: a text would load the whole international names codec.
            infos = _socket.getaddrinfo(host.encode("ascii"), port, 0, _socket.SOCK_STREAM)
            found.extend((int(info[0]), info[4]) for info in infos)  # type: ignore[misc]
        except (OSError, UnicodeError) as error:
            trouble[0] = str(error)
        done.release()

    _thread.start_new_thread(look_up, ())
    done.acquire(timeout=max(0.001, deadline.limit(_CONNECT_LIMIT)))
    if not found:
        raise NoConnectionError(f"{host}: {trouble[0]}")
    return found


def _handshake(context: _ssl._SSLContext, sock: _Socket, access: Access) -> Any:
    import _ssl

    wrap: Any = context._wrap_socket  # type: ignore[attr-defined]
    tls = wrap(sock, False, access.name, owner=None, session=None)
    try:
        tls.do_handshake()
    except _ssl.SSLCertVerificationError as error:
        why = getattr(error, "verify_message", "") or str(error)
        raise CniError(
            errors.REFUSED,
            f"the API server's certificate is not trusted: {why}",
            f"compare server, certificate-authority and tls-server-name in {access.path}",
        ) from None
    return tls


def _context(access: Access) -> _ssl._SSLContext:
    import _ssl

    context = _ssl._SSLContext(_ssl.PROTOCOL_TLS_CLIENT)
    what = "certificate-authority"
    try:
        if access.insecure:
            context.check_hostname = False
            context.verify_mode = _ssl.CERT_NONE
        else:
            context.check_hostname = True
            context.verify_mode = _ssl.CERT_REQUIRED
            context.load_verify_locations(None, None, access.ca.decode("ascii"))
        what = "client-certificate or client-key"
        if access.certificate:
            _load_pair(context, access)
    except (OSError, UnicodeError) as error:
        raise CniError(
            errors.CONFIGURATION,
            f"kubeconfig {access.path} has an unusable {what}: {error}",
            "it has to be PEM, not encrypted, and key and certificate have to match",
        ) from None
    return context


def _load_pair(context: _ssl._SSLContext, access: Access) -> None:
    # OpenSSL takes the pair from files only: memory that looks like one leaves nothing behind.
    import posix

    fd = posix.memfd_create("client-pair", posix.MFD_CLOEXEC)
    try:
        posix.write(fd, access.certificate + b"\n" + access.key)
        # An empty password, or OpenSSL would ask for one on the terminal.
        context.load_cert_chain(f"/proc/self/fd/{fd}", None, "")
    finally:
        posix.close(fd)
