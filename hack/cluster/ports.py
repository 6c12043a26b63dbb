"""Free loopback ports that stay ours before a server has opened them and while it is down."""

import socket


class PortReservation:
    """A port of 127.0.0.1, held by a bound socket that never listens.

    The server shares the port (SO_REUSEPORT, socket(7)), so no other process can be given it
    between our choice and the server's start, or while the server is stopped; and a client of a
    stopped server is refused at once.
    """

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self._socket.bind(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]

    def release(self) -> None:
        """Give the port back to the machine."""
        self._socket.close()
