"""The files and command lines of etcd and kube-apiserver for one cluster folder."""

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hack.cluster.certificates import Authority, new_key, write_public_key
from hack.cluster.tools import Tools

SYSTEM_NAMESPACE = "ipam-system"
_ISSUER = "https://kubernetes.default.svc.cluster.local"
_SERVICE_RANGE = "10.96.0.0/24"

_AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "rules": [
        # The server's calls to itself: never what a claim is about, and most of an idle log.
        {"level": "None", "users": ["system:apiserver"]},
        {"level": "Metadata"},
    ],
}


@dataclass(frozen=True)
class Layout:
    """Where things lie in a cluster's folder."""

    folder: Path

    @property
    def ca_file(self) -> Path:
        """The certificate of the cluster's authority."""
        return self.folder / "pki" / "ca.crt"

    @property
    def token_file(self) -> Path:
        """The administrator's bearer token, without a line end."""
        return self.folder / "admin.token"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.folder / "kubeconfig"

    def entries(self) -> list[Path]:
        """All that a cluster writes into its folder, so that nothing else is ever removed."""
        names = ("pki", "etcd", "audit-policy.json", "state.json", "state.new")
        files = (self.token_file, self.kubeconfig, self.audit_log, self.etcd_log)
        return [*(self.folder / name for name in names), *files, self.apiserver_log]

    @property
    def audit_log(self) -> Path:
        """The API server's audit log."""
        return self.folder / "audit.log"

    @property
    def etcd_log(self) -> Path:
        """What etcd prints."""
        return self.folder / "etcd.log"

    @property
    def apiserver_log(self) -> Path:
        """What kube-apiserver prints."""
        return self.folder / "kube-apiserver.log"


def prepare(layout: Layout) -> Authority:
    """Write keys, certificates, the administrator's token and the audit policy."""
    pki = layout.folder / "pki"
    pki.mkdir(mode=0o700, parents=True)
    authority = Authority(pki)
    loopback = ("localhost", "127.0.0.1")
    authority.issue("etcd", loopback, client=True)
    authority.issue(
        "kube-apiserver",
        (*loopback, "kubernetes", "kubernetes.default", "kubernetes.default.svc", "10.96.0.1"),
        client=True,
    )
    write_public_key(new_key(pki / "service-account.key"), pki / "service-account.pub")
    token = secrets.token_hex(16)
    _write_private(layout.token_file, token)
    _write_private(pki / "tokens.csv", f'{token},admin,admin,"system:masters"\n')
    (layout.folder / "audit-policy.json").write_text(json.dumps(_AUDIT_POLICY))
    return authority


def etcd_command(tools: Tools, layout: Layout, port: int) -> list[str]:
    """Return etcd's command line: one member, its data in the folder, mutual TLS."""
    pki = layout.folder / "pki"
    client = f"https://127.0.0.1:{port}"
    # The only member talks to nobody: any free port will do for its peers.
    peer = "http://127.0.0.1:0"
    return [
        str(tools.etcd),
        f"--data-dir={layout.folder / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        f"--cert-file={pki / 'etcd.crt'}",
        f"--key-file={pki / 'etcd.key'}",
        f"--trusted-ca-file={layout.ca_file}",
        "--client-cert-auth",
        "--socket-reuse-port",
        # The data dies with the cluster: waiting for the disk would protect nothing.
        "--unsafe-no-fsync",
        # Alone it wins every election: the sooner it asks, the sooner it serves.
        "--heartbeat-interval=10",
        "--election-timeout=100",
        # As kubeadm sets it: lists from the API server's cache wait for these notices.
        "--watch-progress-notify-interval=5s",
        "--log-level=warn",
    ]


def apiserver_command(
    tools: Tools,
    layout: Layout,
    *,
    port: int,
    etcd_port: int,
    feature_gates: Mapping[str, bool],
    flags: Sequence[str],
) -> list[str]:
    """Return kube-apiserver's command line: TLS, RBAC, audit log; `flags` come last and win."""
    pki = layout.folder / "pki"
    command = [
        str(tools.apiserver),
        f"--etcd-servers=https://127.0.0.1:{etcd_port}",
        f"--etcd-cafile={layout.ca_file}",
        f"--etcd-certfile={pki / 'kube-apiserver.crt'}",
        f"--etcd-keyfile={pki / 'kube-apiserver.key'}",
        "--bind-address=127.0.0.1",
        # Else the server looks for a default route, and a machine without one has no cluster.
        "--advertise-address=127.0.0.1",
        f"--secure-port={port}",
        "--permit-port-sharing",
        f"--tls-cert-file={pki / 'kube-apiserver.crt'}",
        f"--tls-private-key-file={pki / 'kube-apiserver.key'}",
        f"--cert-dir={pki}",
        f"--client-ca-file={layout.ca_file}",
        f"--token-auth-file={pki / 'tokens.csv'}",
        "--authorization-mode=RBAC",
        f"--service-account-key-file={pki / 'service-account.pub'}",
        f"--service-account-signing-key-file={pki / 'service-account.key'}",
        f"--service-account-issuer={_ISSUER}",
        f"--api-audiences={_ISSUER}",
        f"--service-cluster-ip-range={_SERVICE_RANGE}",
        # Nobody reaches the server through its Service here.
        "--endpoint-reconciler-type=none",
        f"--audit-policy-file={layout.folder / 'audit-policy.json'}",
        f"--audit-log-path={layout.audit_log}",
        # Counting needs the whole log in one file, and each line there before the reply.
        "--audit-log-mode=blocking",
        "--audit-log-maxsize=100000",
        "--profiling=false",
    ]
    if feature_gates:
        gates = ",".join(f"{name}={str(on).lower()}" for name, on in feature_gates.items())
        command.append(f"--feature-gates={gates}")
    return [*command, *flags]


def kubeconfig_text(layout: Layout, server: str, token: str, namespace: str) -> str:
    """Return a kubeconfig as JSON, which is YAML; its token stands inside."""
    name = "whereabouts-fast-loopback"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [
            {
                "name": name,
                "cluster": {"server": server, "certificate-authority": str(layout.ca_file)},
            }
        ],
        "users": [{"name": name, "user": {"token": token}}],
        "contexts": [
            {"name": name, "context": {"cluster": name, "user": name, "namespace": namespace}}
        ],
    }
    return json.dumps(config, indent=2) + "\n"


def write_kubeconfig(path: Path, text: str) -> Path:
    """Write a kubeconfig readable by its owner only."""
    _write_private(path, text)
    return path


def _write_private(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text)
