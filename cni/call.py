"""One call with everything it needs: request, configuration, node, API server, end of time."""

from __future__ import annotations

import posix

from cni import errors, kubeconfig
from cni.apiserver import ApiServer
from cni.deadline import Deadline
from cni.errors import CniError
from cni.marks import Marks
from cni.node import Node
from cni.objects import Objects
from cni.protocol import Request
from whereabouts_fast.ipam.netconf import NetConf


class Call:
    """The circumstances of one ADD or DEL. `parent` is the process that started us.

    `reserved` are the names of reservations that entries of this call answer for.
    """

    __slots__ = (
        "access",
        "api",
        "conf",
        "deadline",
        "marks",
        "node",
        "objects",
        "parent",
        "request",
        "reserved",
    )

    def __init__(
        self, request: Request, conf: NetConf, node: Node, deadline: Deadline, parent: int
    ) -> None:
        self.request = request
        self.conf = conf
        self.node = node
        self.deadline = deadline
        self.parent = parent
        self.reserved: set[str] = set()
        self.marks = Marks(conf.hints_dir)
        self.access = kubeconfig.load(_kubeconfig(conf, node))
        self.api = ApiServer(self.access, deadline)
        self.objects = Objects(self.api, node.name)

    def given_up(self) -> str:
        """Tell why nobody waits for this ADD any more, "" while somebody does."""
        if posix.getppid() != self.parent:
            return "its parent process is gone"
        request = self.request
        if self.marks.since(request.container_id, request.ifname, self.deadline.start):
            return "a DEL for the same container and interface has come"
        return ""


def _kubeconfig(conf: NetConf, node: Node) -> str:
    path = conf.kubeconfig or node.kubeconfig
    if not path:
        raise CniError(
            errors.CONFIGURATION,
            "no kubeconfig is named in ipam.kubernetes.kubeconfig, in the flat file or beside it",
            "name one there, or put whereabouts.kubeconfig beside the flat file",
        )
    return path
