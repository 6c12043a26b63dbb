"""Passes TCP connections on to the API server and counts every byte, TLS and all."""

from __future__ import annotations

import selectors
import socket
import threading
from urllib.parse import urlsplit


class Relay:
    """Runs in a thread of its own on a loopback port; a context manager.

    server: the API server's URL. url: to be used instead. sent, received: bytes from clients and
    to them, so far.
    """

    def __init__(self, server: str) -> None:
        upstream = urlsplit(server)
        self._upstream = (upstream.hostname, upstream.port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"https://127.0.0.1:{self._listener.getsockname()[1]}"
        self.sent = 0
        self.received = 0
        self._stop, self._stopped = socket.socketpair()
        self._thread = threading.Thread(target=self._run, name="relay")

    def __enter__(self) -> Relay:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.close()
        self._thread.join()
        self._stopped.close()
        self._listener.close()

    def taken(self) -> int:
        """Return the bytes both ways since the last call."""
        total = self.sent + self.received
        self.sent = self.received = 0
        return total

    def _run(self) -> None:
        with selectors.DefaultSelector() as waiting:
            waiting.register(self._listener, selectors.EVENT_READ)
            waiting.register(self._stopped, selectors.EVENT_READ)
            while True:
                for key, _ in waiting.select():
                    if key.fileobj is self._stopped:
                        self._close_all(waiting)
                        return
                    if key.fileobj is self._listener:
                        self._accept(waiting)
                    elif key.fd >= 0:
                        self._pass_on(waiting, key)

    def _accept(self, waiting: selectors.BaseSelector) -> None:
        client, _ = self._listener.accept()
        server = socket.create_connection(self._upstream)
        waiting.register(client, selectors.EVENT_READ, (server, True))
        waiting.register(server, selectors.EVENT_READ, (client, False))

    def _pass_on(self, waiting: selectors.BaseSelector, key: selectors.SelectorKey) -> None:
        source = key.fileobj
        assert isinstance(source, socket.socket)
        if source.fileno() < 0:  # its other end was closed in this round
            return
        other, outward = key.data
        try:
            data = source.recv(65536)
            other.sendall(data)
        except OSError:
            data = b""
        if outward:
            self.sent += len(data)
        else:
            self.received += len(data)
        if not data:
            for end in (source, other):
                waiting.unregister(end)
                end.close()

    def _close_all(self, waiting: selectors.BaseSelector) -> None:
        for key in list(waiting.get_map().values()):
            if key.data is not None:
                assert isinstance(key.fileobj, socket.socket)
                key.fileobj.close()
