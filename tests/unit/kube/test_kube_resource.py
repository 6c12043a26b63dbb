import pytest

from whereabouts_fast.kube.resource import CRDS, IPPOOLS, NODES, PODS


def test_paths_follow_group_version_and_scope() -> None:
    assert NODES.path() == "/api/v1/nodes"
    assert NODES.path(name="n1") == "/api/v1/nodes/n1"
    assert PODS.path("a", "b") == "/api/v1/namespaces/a/pods/b"
    group = "/apis/whereabouts.cni.cncf.io/v1alpha1"
    assert IPPOOLS.path() == f"{group}/ippools"
    assert IPPOOLS.path("ns", "p") == f"{group}/namespaces/ns/ippools/p"
    assert CRDS.path(name="x.y") == "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/x.y"


def test_names_cannot_leave_their_place_in_the_path() -> None:
    assert PODS.path("a", "../nodes/n1") == "/api/v1/namespaces/a/pods/..%2Fnodes%2Fn1"


def test_namespaces_are_demanded_and_refused_by_scope() -> None:
    with pytest.raises(ValueError, match="needs a namespace"):
        PODS.path(None, "b")
    with pytest.raises(ValueError, match="have no namespace"):
        NODES.path("a")
