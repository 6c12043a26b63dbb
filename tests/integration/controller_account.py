"""A service account for the controller, with just the rights that a test gives it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hack.cluster.api import ApiError
from hack.cluster.commands import SYSTEM_NAMESPACE
from hack.cluster.server import Cluster
from whereabouts_fast.controller.permissions import Need, needs
from whereabouts_fast.controller.process import LEASE

NAME = "controller-under-test"
ALL = tuple(needs(SYSTEM_NAMESPACE, LEASE))
_GROUP = "rbac.authorization.k8s.io"
_RBAC = f"/apis/{_GROUP}/v1"


class Account:
    """The account; `kubeconfig` is its own."""

    def __init__(self, cluster: Cluster) -> None:
        self._api = cluster.api
        path = f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/serviceaccounts"
        metadata = {"name": NAME, "namespace": SYSTEM_NAMESPACE}
        with contextlib.suppress(ApiError):
            self._api.create(
                path, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}
            )
        self.allow(())
        for scope in ("", SYSTEM_NAMESPACE):
            self._bind(scope)
        token = cluster.service_account_token(SYSTEM_NAMESPACE, NAME)
        self.kubeconfig: Path = cluster.kubeconfig_for(token=token)

    def allow(self, wanted: Iterable[Need]) -> None:
        """Give it these rights and no others; the server takes a moment to know."""
        wanted = list(wanted)
        for scope in ("", SYSTEM_NAMESPACE):
            rules = [_rule(need) for need in wanted if need.namespace == scope]
            self._put(_place(scope, "role"), {**_role(scope), "rules": rules})

    def remove(self) -> None:
        for scope in ("", SYSTEM_NAMESPACE):
            for kind in ("rolebinding", "role"):
                self._api.delete(f"{_place(scope, kind)}/{NAME}")

    def _bind(self, scope: str) -> None:
        role = _role(scope)
        subject = {"kind": "ServiceAccount", "name": NAME, "namespace": SYSTEM_NAMESPACE}
        body = {
            **role,
            "kind": f"{role['kind']}Binding",
            "roleRef": {
                "apiGroup": _GROUP,
                "kind": role["kind"],
                "name": NAME,
            },
            "subjects": [subject],
        }
        self._put(_place(scope, "rolebinding"), body)

    def _put(self, place: str, body: dict[str, Any]) -> None:
        if self._api.exists(f"{place}/{NAME}"):
            self._api.replace(f"{place}/{NAME}", body)
        else:
            self._api.create(place, body)


@contextmanager
def account(cluster: Cluster) -> Iterator[Account]:
    made = Account(cluster)
    try:
        yield made
    finally:
        made.remove()


def _role(scope: str) -> dict[str, Any]:
    metadata = {"name": NAME, "namespace": scope} if scope else {"name": NAME}
    kind = "Role" if scope else "ClusterRole"
    return {"apiVersion": f"{_GROUP}/v1", "kind": kind, "metadata": metadata}


def _place(scope: str, kind: str) -> str:
    return f"{_RBAC}/namespaces/{scope}/{kind}s" if scope else f"{_RBAC}/cluster{kind}s"


def _rule(need: Need) -> dict[str, Any]:
    rule = {
        "apiGroups": [need.resource.group],
        "resources": [need.resource.plural],
        "verbs": [need.verb],
    }
    return {**rule, "resourceNames": [need.name]} if need.name else rule
