"""The kinds of objects that demo, tests and benchmarks touch, and where the API server has them."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """One resource of the API: `api_version` as written in objects, plural, and its scope."""

    api_version: str
    kind: str
    plural: str
    namespaced: bool = True

    def path(self, namespace: str | None = None, name: str | None = None) -> str:
        """Return the URL path of the collection, or of one object.

        Without a namespace the collection of a namespaced kind is that of all namespaces. Raises
        ValueError where the API has no such path.
        """
        root = "/api/" if "/" not in self.api_version else "/apis/"
        path = root + self.api_version
        if namespace is not None:
            if not self.namespaced:
                raise ValueError(
                    f"{self.plural} have no namespace, got {namespace!r}: leave it out"
                )
            path += f"/namespaces/{namespace}"
        elif self.namespaced and name is not None:
            raise ValueError(f"one of {self.plural} ({name!r}) needs a namespace: name it")
        path += f"/{self.plural}"
        return path if name is None else f"{path}/{name}"


NAMESPACES = Kind("v1", "Namespace", "namespaces", namespaced=False)
NODES = Kind("v1", "Node", "nodes", namespaced=False)
PODS = Kind("v1", "Pod", "pods")
SERVICE_ACCOUNTS = Kind("v1", "ServiceAccount", "serviceaccounts")
LEASES = Kind("coordination.k8s.io/v1", "Lease", "leases")
EVENTS = Kind("events.k8s.io/v1", "Event", "events")
CRDS = Kind(
    "apiextensions.k8s.io/v1",
    "CustomResourceDefinition",
    "customresourcedefinitions",
    namespaced=False,
)
NADS = Kind("k8s.cni.cncf.io/v1", "NetworkAttachmentDefinition", "network-attachment-definitions")
IP_POOLS = Kind("whereabouts.cni.cncf.io/v1alpha1", "IPPool", "ippools")
NODE_SLICE_POOLS = Kind("whereabouts.cni.cncf.io/v1alpha1", "NodeSlicePool", "nodeslicepools")
RESERVATIONS = Kind(
    "whereabouts.cni.cncf.io/v1alpha1",
    "OverlappingRangeIPReservation",
    "overlappingrangeipreservations",
)
