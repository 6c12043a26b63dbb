"""The modules that are frozen into the plugin load nothing that costs it start-up time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import whereabouts_fast

HOUSE = Path(whereabouts_fast.__file__).resolve().parent.parent
MODULES = ("address", "ranges", "naming", "pool", "netconf")
OURS = {"whereabouts_fast", "whereabouts_fast.ipam"} | {
    f"whereabouts_fast.ipam.{name}" for name in (*MODULES, "networks", "checks")
}

PROBE = """
import sys
sys.path.insert(0, sys.argv[1])
before = set(sys.modules)
from whereabouts_fast.ipam import address, naming, netconf, pool, ranges
conf = netconf.parse(
    {"name": "blue", "ipam": {
        "range": "10.40.0.0/24", "node_slice_size": "/26", "gateway": "10.40.0.1",
        "exclude": ["10.40.0.8"], "dns": {"search": ["a"]}, "routes": [{"dst": "0.0.0.0/0"}],
    }}
)
netconf.parse_lenient(None)
space = conf.networks[0].range.slice(conf.networks[0].range.base, 26)
entry = pool.Entry("id", "tenant/a", "net1")
pool.add_patch(pool.choose(space, {1, 2}), entry)
naming.ip_pool(space.cidr, "blue", "n1")
naming.label_value(sys.argv[2])
print(*sorted(set(sys.modules) - before))
"""


def bare_interpreter() -> str:
    # The environment's own launcher would find no standard library without site.
    return str(Path(sys.executable).resolve())


@pytest.mark.parametrize(
    ("label", "extra"),
    [("n1", set[str]()), ("n1-" * 40, {"_sha2", "_sha256"})],
    ids=["plain", "with a label that needs a digest"],
)
def test_the_kernel_loads_only_itself_and_the_socket_module(label: str, extra: set[str]) -> None:
    command = [bare_interpreter(), "-I", "-S", "-E", "-c", PROBE, str(HOUSE), label]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    # The plugin's build replaces __future__ by a stub; there is no way to import less here.
    assert set(done.stdout.split()) - extra - {"__future__"} == OURS | {"_socket"}
