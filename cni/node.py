"""What the node supplies: its flat file of defaults and the name it has in the cluster."""

from __future__ import annotations

import posix

from cni import errors, files, jsontext
from cni.errors import CniError
from whereabouts_fast.ipam import netconf

# CNI configuration directories of a node, in the order they are looked through.
FOLDERS = ("/etc/kubernetes/cni/net.d", "/etc/cni/net.d", "/host/etc/cni/net.d")
_FLAT_FILE = "whereabouts.d/whereabouts.conf"
_KUBECONFIG = "whereabouts.kubeconfig"
_NODE_NAME = "nodename"


class Node:
    """This node's defaults and identity.

    `defaults` is the flat file's content, None when there is no such file. `name` is the node's
    name in the cluster, `origin` where that was found, `host` the operating system's name.
    `kubeconfig` is the file beside the flat file, for configurations that name none.
    """

    __slots__ = ("defaults", "host", "kubeconfig", "name", "origin")

    def __init__(self) -> None:
        self.defaults: dict[str, object] | None = None
        self.name = ""
        self.origin = ""
        self.host = ""
        self.kubeconfig = ""

    @property
    def identities(self) -> str:
        """Return both names with their origins, for errors about a node that has nothing."""
        return f'node "{self.name}" (from {self.origin}; host name "{self.host}")'


def look(
    config: dict[str, object],
    environ: dict[str, str],
    *,
    lenient: bool,
    folders: tuple[str, ...] = FOLDERS,
) -> Node:
    """Find the flat file and the node's name.

    A flat file that cannot be read is CniError 7 naming it, unless `lenient` (a DEL has to work).
    """
    node = Node()
    wanted = netconf.configuration_path(config)
    paths = [wanted] if wanted else []
    paths += [f"{folder}/{_FLAT_FILE}" for folder in folders]
    for path in paths:
        try:
            node.defaults = _defaults(path)
        except FileNotFoundError:
            continue
        except OSError as error:
            if path == wanted:
                _complain(path, error.strerror or "cannot be read", lenient=lenient)
            continue
        except jsontext.JsonError as error:
            _complain(path, str(error), lenient=lenient)
        paths.insert(0, path)
        break
    beside = [path.rpartition("/")[0] or "." for path in paths]
    node.host = posix.uname().nodename
    node.name, node.origin = _name(environ, beside, node.host)
    for folder in beside:
        try:
            posix.stat(f"{folder}/{_KUBECONFIG}")
        except OSError:
            continue
        node.kubeconfig = f"{folder}/{_KUBECONFIG}"
        break
    return node


def _defaults(path: str) -> dict[str, object]:
    return files.settled(lambda: jsontext.parse_object(files.read(path)), jsontext.JsonError)


def _complain(path: str, problem: str, *, lenient: bool) -> None:
    if not lenient:
        raise CniError(
            errors.CONFIGURATION,
            f"flat file {path}: {problem}",
            "it has to be one JSON object with the keys of ipam as defaults",
        )


def _name(environ: dict[str, str], folders: list[str], host: str) -> tuple[str, str]:
    name = environ.get("NODENAME", "").strip()
    if name:
        return name, "the environment variable NODENAME"
    for folder in folders:
        path = f"{folder}/{_NODE_NAME}"
        try:
            name = files.read(path, 4096).decode("ascii").strip()
        except (OSError, UnicodeError):
            continue
        if name:
            return name, path
    return host, "the host name"
