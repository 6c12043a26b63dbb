"""A real etcd and kube-apiserver on loopback, as a context manager."""

from __future__ import annotations

import base64
import http.client
import json
import signal
import ssl
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from hack.cluster import commands, seed
from hack.cluster.api import Api
from hack.cluster.audit import AuditLog
from hack.cluster.build import find_or_build
from hack.cluster.certificates import Certificate
from hack.cluster.commands import SYSTEM_NAMESPACE, Layout
from hack.cluster.folder import TemporaryFolder
from hack.cluster.ports import PortReservation
from hack.cluster.process import Process, start_tied
from hack.cluster.tools import Tools

NAMESPACES = ("default", SYSTEM_NAMESPACE, "tenant")
_READY_SECONDS = 60.0
# Outside the API server's keys; base64, as etcd's gateway wants it.
_COMPACTION_KEY = base64.b64encode(b"/compaction").decode()


class ClusterError(Exception):
    """The cluster did not start; the message ends with the last lines of the server's log."""


def wait_until_ready(api: Api, processes: Sequence[Process]) -> None:
    """Wait until the API server says that it is ready; see whether all servers still run.

    Raises ClusterError.
    """
    deadline = time.monotonic() + _READY_SECONDS
    while True:
        for process in processes:
            if process.exit_code() is not None:
                raise ClusterError(
                    f"{process.name} ended with {process.exit_code()}; the end of {process.log}:\n"
                    f"{process.log_tail()}"
                )
        try:
            if api.exchange("GET", "/readyz", seconds=5).status == 200:
                return
        except OSError:
            pass
        if time.monotonic() > deadline:
            last = processes[-1]
            raise ClusterError(
                f"not ready after {_READY_SECONDS} s; the end of {last.log}:\n{last.log_tail()}"
            )
        time.sleep(0.02)


class Cluster:
    """One cluster of this process; made by `Cluster.start`.

    server: URL. ca_file, kubeconfig, folder: paths. token: the administrator's. api: a client with
    all rights. audit: the counter over the audit log. Its servers end with this process, however
    that ends, and the next start removes the folder that a crash left.
    """

    def __init__(
        self, tools: Tools, feature_gates: Mapping[str, bool], flags: Sequence[str]
    ) -> None:
        self._tools = tools
        self._feature_gates = dict(feature_gates)
        self._flags = list(flags)
        self._temporary = TemporaryFolder()
        self.folder = self._temporary.path
        self._layout = Layout(self.folder)
        self._authority = commands.prepare(self._layout)
        self._port = PortReservation()
        self._etcd_port = PortReservation()
        self._etcd: Process | None = None
        self._apiserver: Process | None = None
        self.server = f"https://127.0.0.1:{self._port.port}"
        self.ca_file = self._layout.ca_file
        self.token = self._layout.token_file.read_text()
        self.kubeconfig = self._layout.kubeconfig
        self.kubeconfig_for(path=self.kubeconfig)
        self.api = Api(self.server, self.ca_file, self.token)
        self.audit = AuditLog(self._layout.audit_log, self._touch)

    @classmethod
    def start(
        cls,
        *,
        feature_gates: Mapping[str, bool] | None = None,
        flags: Sequence[str] = (),
        crds: bool = True,
        tools: Tools | None = None,
    ) -> Cluster:
        """Start a cluster and return it when it serves, with namespaces and definitions in place.

        feature_gates: of the API server, such as {"WatchList": False}. flags: further ones of the
        API server. crds: whether to create our custom resource definitions. tools: the programs to
        run, else found or built. Raises ClusterError, ToolsError.
        """
        cluster = cls(tools or find_or_build(), feature_gates or {}, flags)
        try:
            cluster._etcd = start_tied(
                "etcd",
                commands.etcd_command(cluster._tools, cluster._layout, cluster._etcd_port.port),
                cluster._layout.etcd_log,
            )
            cluster.start_server()
            seed.create_namespaces(cluster.api, NAMESPACES)
            if crds:
                seed.apply_crds(cluster.api)
        except BaseException:
            cluster.stop()
            raise
        return cluster

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def pids(self) -> dict[str, int]:
        """The process ids of the running servers by name."""
        return {process.name: process.pid for process in self._processes()}

    def stop(self) -> None:
        """End both servers and remove the folder; may be called again."""
        self.api.close()
        for process in reversed(self._processes()):
            process.end()
        self._etcd = self._apiserver = None
        self._port.release()
        self._etcd_port.release()
        self._temporary.remove()

    def stop_server(self, *, graceful: bool = False) -> None:
        """Kill the API server, or have it end in its own time; its port stays reserved."""
        if self._apiserver is None:
            return
        self._apiserver.end(signal.SIGTERM if graceful else signal.SIGKILL)
        self._apiserver = None
        self.audit.server_killed()

    def start_server(self) -> None:
        """Start the API server on the same port and data; return when it is ready."""
        if self._apiserver is not None:
            return
        self._apiserver = start_tied(
            "kube-apiserver",
            commands.apiserver_command(
                self._tools,
                self._layout,
                port=self._port.port,
                etcd_port=self._etcd_port.port,
                feature_gates=self._feature_gates,
                flags=self._flags,
            ),
            self._layout.apiserver_log,
        )
        wait_until_ready(self.api, self._processes())

    def require_running(self) -> None:
        """Raise ClusterError, with the end of its log, when a server has ended by itself."""
        for process in self._processes():
            if process.exit_code() is not None:
                raise ClusterError(
                    f"{process.name} ended with {process.exit_code()}:\n{process.log_tail()}"
                )

    def compact(self) -> int:
        """Have etcd forget its history: each resourceVersion given out so far becomes too old.

        Returns the revision compacted to. The API server answers a watch from such a version with
        410 as soon as its own watch cache does not reach back that far either: after a restart, or
        with the flag `--watch-cache=false`.
        """
        # A watch from version v starts at revision v + 1, and etcd refuses what lies *below* the
        # compacted revision: that has to be two ahead of the last version anybody may hold.
        for _ in range(2):
            put = self._etcd_call("/v3/kv/put", {"key": _COMPACTION_KEY, "value": ""})
        revision = int(put["header"]["revision"])
        self._etcd_call("/v3/kv/compaction", {"revision": revision, "physical": True})
        return revision

    def issue_certificate(self, name: str, hosts: Sequence[str] = ("127.0.0.1",)) -> Certificate:
        """Issue a server certificate that clients of this cluster trust."""
        return self._authority.issue(name, hosts)

    def kubeconfig_for(
        self,
        *,
        path: Path | None = None,
        server: str | None = None,
        token: str | None = None,
        namespace: str = SYSTEM_NAMESPACE,
    ) -> Path:
        """Write a kubeconfig with another server URL, token or namespace and return its path."""
        target = path or self.folder / f"kubeconfig-{time.monotonic_ns()}"
        text = commands.kubeconfig_text(
            self._layout, server or self.server, token or self.token, namespace
        )
        return commands.write_kubeconfig(target, text)

    def service_account_token(
        self, namespace: str, name: str = "default", *, seconds: int = 3600
    ) -> str:
        """Have the API server sign a token of a service account (TokenRequest)."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        answer = self.api.create(path, {"spec": {"expirationSeconds": seconds}})
        token: str = answer["status"]["token"]
        return token

    def _processes(self) -> list[Process]:
        return [process for process in (self._etcd, self._apiserver) if process is not None]

    def _touch(self, user_agent: str, path: str) -> None:
        self.api.request("GET", path, headers={"User-Agent": user_agent})

    def _etcd_call(self, path: str, body: dict[str, object]) -> dict[str, dict[str, str]]:
        pki = self.folder / "pki"
        tls = ssl.create_default_context(cafile=str(self.ca_file))
        tls.load_cert_chain(pki / "kube-apiserver.crt", pki / "kube-apiserver.key")
        connection = http.client.HTTPSConnection("127.0.0.1", self._etcd_port.port, context=tls)
        try:
            connection.request("POST", path, json.dumps(body))
            response = connection.getresponse()
            content = response.read()
        finally:
            connection.close()
        if response.status != 200:
            raise ClusterError(f"etcd answered {path} with {response.status}: {content!r}")
        answer: dict[str, dict[str, str]] = json.loads(content)
        return answer
