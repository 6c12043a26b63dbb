"""The configuration of a call as every verb but DEL and VERSION reads it: strictly."""

from __future__ import annotations

from cni import errors, node
from cni.errors import CniError
from cni.node import Node
from cni.protocol import Request
from whereabouts_fast.ipam import naming, netconf
from whereabouts_fast.ipam.netconf import NetConf


def read(request: Request, environ: dict[str, str]) -> tuple[NetConf, Node]:
    """Read configuration and node; raises CniError 7 naming the key that cannot be right."""
    here = node.look(request.config, environ, lenient=False)
    try:
        return netconf.parse(request.config, here.defaults), here
    except netconf.ConfigError as error:
        raise CniError(
            errors.CONFIGURATION, f"network configuration: {error}", error.remedy
        ) from None


def check(here: Node) -> None:
    """Refuse a node that no cluster can have."""
    if not naming.is_object_name(here.name):
        raise CniError(
            errors.CONFIGURATION,
            f"{here.identities} cannot be a node of the cluster",
            "set NODENAME or the file nodename beside the flat file to the Node object's name",
        )
