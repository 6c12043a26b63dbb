"""Where does the time of an ADD go?

Each form is also built with a program that comes before the shim and does only the steps that any
plugin has to take: start, then a TLS handshake, then one patch. The rest is the shim's own: loading
its modules and reading the configuration, which an ADD shows that ends there; then choosing,
remembering and answering.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.shim.plugin import Plugin
from benchmarks.shim.population import FEW, SLICED, pool_name
from benchmarks.timing import Command, interleaved, run
from hack.cluster.server import Cluster
from whereabouts_fast.kube.resource import IPPOOLS

ROUNDS = 40
STEPS = ("start", "tls", "patch")
PARTS = ("process start", "modules and configuration", "TLS", "server", "own work")

PLAIN_STEPS = """\
import posix
step = posix.environ.get(b"PLAIN_STEP")
if step:
    if step != b"start":
        import _socket, _ssl
        class Socket(_socket.socket):
            __slots__ = ("__weakref__",)
        sock = Socket()
        sock.connect(("127.0.0.1", int(posix.environ[b"PORT"])))
        sock.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_NODELAY, 1)
        context = _ssl._SSLContext(_ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(posix.environ[b"CA"].decode())
        tls = context._wrap_socket(sock, False, "127.0.0.1", owner=None, session=None)
        tls.do_handshake()
        if step == b"patch":
            tls.write(posix.read(0, 65536))
            answer = tls.read(65536)
            if not answer.startswith(b"HTTP/1.1 200"):
                posix.write(2, answer)
                posix._exit(1)
    posix._exit(0)
"""


def measure(
    plugins: Sequence[Plugin], cluster: Cluster, make: Callable[[str, str], Path]
) -> dict[str, Mapping[str, float]]:
    """Return for each of our forms the median ms of the plain steps, and of the parts of an ADD.

    make: builds a form with a program that comes first, and returns the executable.
    """
    subjects = [
        partial(_turn, _Plain(one, cluster, make(one.name, PLAIN_STEPS)), one) for one in plugins
    ]
    figures = interleaved(subjects, ROUNDS)
    return {one.name: _parts(one.name, figures) for one in plugins}


def _parts(name: str, figures: Mapping[str, float]) -> dict[str, float]:
    start, tls, patch = (figures[f"{name} {step}"] for step in STEPS)
    loaded, whole = figures[f"{name} refused"], figures[f"{name} ADD"]
    before = (start, loaded - start, tls - start, patch - tls)
    parts = dict(zip(PARTS, (*before, whole - sum(before)), strict=True))
    found = {**parts, "the plain steps": patch, "ADD": whole}
    return {part: round(figure, 2) for part, figure in found.items()}


class _Plain:
    """One form's plain steps, against the pool of a node that nobody else writes."""

    def __init__(self, plugin: Plugin, cluster: Cluster, executable: Path) -> None:
        self._executable = executable
        where = urlsplit(cluster.server)
        self._environment = {"PORT": str(where.port), "CA": str(cluster.ca_file)}
        self._head = (
            f"PATCH {IPPOOLS.path(plugin.namespace, pool_name(SLICED, FEW - 1))} HTTP/1.1\r\n"
            f"Host: {where.netloc}\r\nAuthorization: Bearer {cluster.token}\r\n"
            "Accept: application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1\r\n"
            "Content-Type: application/json-patch+json\r\n"
        )

    def step(self, step: str, number: int) -> Command:
        entry = {"id": str(number), "podref": "tenant/plain", "ifname": "net1"}
        body = json.dumps([{"op": "add", "path": "/spec/allocations/200", "value": entry}])
        request = f"{self._head}Content-Length: {len(body)}\r\n\r\n{body}"
        environment = {**self._environment, "PLAIN_STEP": step}
        return Command([self._executable], environment, request.encode())


def _turn(plain: _Plain, plugin: Plugin, number: int) -> Mapping[str, float]:
    add = plugin.call("ADD", number)
    nameless = {**add.environment, "NODENAME": "No Name"}
    commands = {step: plain.step(step, number) for step in STEPS}
    commands |= {"refused": add._replace(environment=nameless, status=1), "ADD": add}
    figures = {
        f"{plugin.name} {what}": run(command).seconds * 1000 for what, command in commands.items()
    }
    run(plugin.call("DEL", number))
    return figures
