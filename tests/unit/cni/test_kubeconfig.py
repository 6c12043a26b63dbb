"""A kubeconfig in JSON or YAML is read alike, and what is wrong in it is named."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from cni import kubeconfig, yamlblock
from cni.errors import CniError

PEM = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"


def whole(**changes: Any) -> dict[str, Any]:
    """A kubeconfig; keys of changes are cluster, user or context."""
    ca = base64.b64encode(PEM).decode()
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [
            {
                "name": "other",
                "context": {"cluster": "nowhere", "user": "nobody"},
            },
            {
                "name": "c",
                "context": {"cluster": "k", "user": "u", **changes.get("context", {})},
            },
        ],
        "clusters": [
            {
                "name": "k",
                "cluster": {
                    "server": "https://10.0.0.1:6443",
                    "certificate-authority-data": ca,
                    **changes.get("cluster", {}),
                },
            }
        ],
        "users": [{"name": "u", "user": {"token": "t0ken", **changes.get("user", {})}}],
        "preferences": {},
    }


def load(folder: Path, config: object, *, as_yaml: bool = False) -> kubeconfig.Access:
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(config) if as_yaml else json.dumps(config))
    return kubeconfig.load(str(path))


@pytest.mark.parametrize("as_yaml", [True, False])
def test_json_and_yaml_say_the_same(tmp_path: Path, as_yaml: bool) -> None:
    access = load(tmp_path, whole(context={"namespace": "ipam-system"}), as_yaml=as_yaml)
    assert (access.host, access.port, access.name) == ("10.0.0.1", 6443, "10.0.0.1")
    assert (access.token, access.ca, access.namespace) == ("t0ken", PEM, "ipam-system")
    assert not access.insecure


def test_without_a_namespace_it_is_kube_system(tmp_path: Path) -> None:
    assert load(tmp_path, whole()).namespace == "kube-system"


@pytest.mark.parametrize(
    ("server", "host", "port", "prefix"),
    [
        ("https://[fd00::1]:6443", "fd00::1", 6443, ""),
        ("https://[fd00::1]", "fd00::1", 443, ""),
        ("https://api.example.test", "api.example.test", 443, ""),
        ("https://10.0.0.1/k8s/clusters/c-1/", "10.0.0.1", 443, "/k8s/clusters/c-1"),
    ],
)
def test_servers_of_all_forms(
    tmp_path: Path, server: str, host: str, port: int, prefix: str
) -> None:
    access = load(tmp_path, whole(cluster={"server": server}))
    assert (access.host, access.port, access.prefix) == (host, port, prefix)


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "plain http": ({"cluster": {"server": "http://10.0.0.1"}}, "http://10.0.0.1"),
    "no server": ({"cluster": {"server": ""}}, "server"),
    "bad port": ({"cluster": {"server": "https://10.0.0.1:x"}}, "10.0.0.1:x"),
    "no authority": ({"cluster": {"certificate-authority-data": ""}}, "certificate-authority"),
    "bad base64": ({"cluster": {"certificate-authority-data": "!"}}, "base64"),
    "missing file": ({"user": {"tokenFile": "/nonexistent/token"}}, "/nonexistent/token"),
    "exec": ({"user": {"token": "", "exec": {"command": "aws"}}}, "exec"),
    "number": ({"user": {"token": 5}}, "token"),
    "cluster": ({"context": {"cluster": "zzz"}}, '"zzz"'),
    "namespace": ({"context": {"namespace": "a b"}}, "namespace"),
}


@pytest.mark.parametrize("how", WRONG)
def test_what_is_wrong_is_named_with_the_file(tmp_path: Path, how: str) -> None:
    changes, named = WRONG[how]
    with pytest.raises(CniError) as failure:
        load(tmp_path, whole(**changes))
    assert failure.value.code == 7
    assert named in failure.value.msg
    assert str(tmp_path) in failure.value.msg


@pytest.mark.parametrize("text", ["", "nonsense", "[]", "{", "a: [1, 2]", "a: &x 1", "\tb: 1"])
def test_what_is_no_kubeconfig_is_a_configuration_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(text)
    with pytest.raises(CniError) as failure:
        kubeconfig.load(str(path))
    assert failure.value.code == 7


def test_a_token_file_is_named_relative_to_the_kubeconfig(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("fresh\n")
    access = load(tmp_path, whole(user={"tokenFile": "token"}))
    assert access.token == "fresh"
    assert access.credential == str(tmp_path / "token")


plain = st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), min_size=1, max_size=20)
documents = st.recursive(
    plain,
    lambda inner: (
        st.lists(inner, min_size=1, max_size=4) | st.dictionaries(plain, inner, min_size=1)
    ),
    max_leaves=10,
).filter(lambda value: isinstance(value, dict))


@given(documents)
def test_what_a_yaml_writer_makes_of_texts_is_read_back_or_refused(document: object) -> None:
    try:
        assert yamlblock.parse(yaml.safe_dump(document, width=10**6)) == document
    except yamlblock.YamlError as error:
        assert "line " in str(error)  # noqa: PT017 - both outcomes are right


@given(st.text(max_size=200))
def test_hostile_text_is_read_or_refused(text: str) -> None:
    try:
        yamlblock.parse(text)
    except yamlblock.YamlError:
        pass


def test_the_styles_that_kubeconfigs_come_in() -> None:
    text = """\
---
# comment
plain: a b # comment
quoted: "a: \\"b\\" # no comment"
single: 'it''s'
literal: |
  line 1
    line 2

  line 3
after: true
list:
- name: x
  value:
    deep: https://h:1
-   name: y
nested:
  - - a
    - b
empty:
none: null
"""
    assert yamlblock.parse(text) == {
        "plain": "a b",
        "quoted": 'a: "b" # no comment',
        "single": "it's",
        "literal": "line 1\n  line 2\n\nline 3\n",
        "after": "true",
        "list": [{"name": "x", "value": {"deep": "https://h:1"}}, {"name": "y"}],
        "nested": [["a", "b"]],
        "empty": None,
        "none": None,
    }
