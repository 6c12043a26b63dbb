"""The kinds this project reads and writes, and where the API server keeps them."""

from dataclasses import dataclass
from urllib.parse import quote


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind of object: API group ("" = core), version, plural name and scope."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """What an object of this kind says in `apiVersion`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def full_name(self) -> str:
        """Plural and group as in RBAC and error messages: `ippools.whereabouts.cni.cncf.io`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str | None = None, name: str | None = None) -> str:
        """URL path of one object, or of all in a namespace, or (both None) of all there are.

        A namespace for a cluster-scoped kind, or a name without one, is a ValueError.
        """
        if namespace is not None and not self.namespaced:
            raise ValueError(f"{self.plural} have no namespace, but {namespace!r} was given")
        if name is not None and namespace is None and self.namespaced:
            raise ValueError(f"{self.plural} {name!r} needs a namespace")
        root = f"/apis/{self.group}" if self.group else "/api"
        inside = f"/namespaces/{quote(namespace, safe='')}" if namespace is not None else ""
        tail = f"/{quote(name, safe='')}" if name is not None else ""
        return f"{root}/{self.version}{inside}/{self.plural}{tail}"


_GROUP = "whereabouts.cni.cncf.io"

NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
SERVICE_ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")
NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
PODS = Resource("", "v1", "pods", "Pod")
NADS = Resource(
    "k8s.cni.cncf.io", "v1", "network-attachment-definitions", "NetworkAttachmentDefinition"
)
IPPOOLS = Resource(_GROUP, "v1alpha1", "ippools", "IPPool")
NODESLICEPOOLS = Resource(_GROUP, "v1alpha1", "nodeslicepools", "NodeSlicePool")
RESERVATIONS = Resource(
    _GROUP, "v1alpha1", "overlappingrangeipreservations", "OverlappingRangeIPReservation"
)
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
EVENTS = Resource("events.k8s.io", "v1", "events", "Event")
VMIS = Resource("kubevirt.io", "v1", "virtualmachineinstances", "VirtualMachineInstance")
ACCESS_REVIEWS = Resource(
    "authorization.k8s.io",
    "v1",
    "selfsubjectaccessreviews",
    "SelfSubjectAccessReview",
    namespaced=False,
)
CRDS = Resource(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    namespaced=False,
)
