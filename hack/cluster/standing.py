"""The cluster that stays: `up` starts it and lets go of it, `down` ends exactly what `up` began."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

from hack.cluster import commands, seed
from hack.cluster.api import Api
from hack.cluster.build import find_or_build
from hack.cluster.commands import Layout
from hack.cluster.identity import Identity
from hack.cluster.locks import locked
from hack.cluster.ports import PortReservation
from hack.cluster.process import start_detached
from hack.cluster.server import NAMESPACES, wait_until_ready

DEFAULT_FOLDER = Path(".cluster")


class StandingError(Exception):
    """`up` or `down` cannot do what it was asked; the message names the remedy."""


class Record:
    """`state.json`: which processes belong to the cluster in a folder, and its URL."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "state.json"
        self.server = ""
        self.processes: dict[str, Identity] = {}
        # True once the cluster was ready: only then may a second `up` take it as it is.
        self.complete = False

    @classmethod
    def read(cls, folder: Path) -> "Record | None":
        """Return what `up` wrote; None when there is nothing. Raises StandingError."""
        record = cls(folder)
        try:
            state = json.loads(record.path.read_text())
            record.server = state["server"]
            record.complete = state["complete"]
            record.processes = {
                name: Identity(**fields) for name, fields in state["processes"].items()
            }
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise StandingError(
                f"{record.path} is not what `up` writes ({error!r}): end etcd and kube-apiserver "
                f"of {folder} yourself, then remove the folder"
            ) from error
        return record

    def write(self) -> None:
        """Write the record so that a crash leaves the old or the new one."""
        state = {
            "server": self.server,
            "complete": self.complete,
            "processes": {name: vars(identity) for name, identity in self.processes.items()},
        }
        fresh = self.path.with_suffix(".new")
        fresh.write_text(json.dumps(state, indent=2) + "\n")
        fresh.rename(self.path)

    def running(self) -> bool:
        """Tell whether the cluster was ready once and all its processes still run."""
        return self.complete and all(identity.alive() for identity in self.processes.values())

    def adding(self, name: str) -> Callable[[Identity], None]:
        """Return a function that adds the process `name` to the record on disk."""

        def add(identity: Identity) -> None:
            self.processes[name] = identity
            self.write()

        return add


def up(folder: Path = DEFAULT_FOLDER) -> Path:
    """Start a cluster in `folder`, or find it running, and return its kubeconfig.

    Of two calls at once the second waits and finds the first one's cluster. What is left of a
    cluster that no longer runs is removed first. Raises StandingError, ClusterError, ToolsError.
    """
    folder = _absolute(folder)
    layout = Layout(folder)
    tools = find_or_build()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not (folder / "lock").exists() and any(folder.iterdir()):
        raise StandingError(f"--folder {folder} holds files of others: name an empty or new folder")
    with locked(folder / "lock"):
        record = Record.read(folder)
        if record is not None and record.running():
            return layout.kubeconfig
        _end(folder, record)
        fresh = Record(folder)
        port, etcd_port = PortReservation(), PortReservation()
        try:
            commands.prepare(layout)
            fresh.server = f"https://127.0.0.1:{port.port}"
            token = layout.token_file.read_text()
            etcd = start_detached(
                "etcd",
                commands.etcd_command(tools, layout, etcd_port.port),
                layout.etcd_log,
                fresh.adding("etcd"),
            )
            apiserver = start_detached(
                "kube-apiserver",
                commands.apiserver_command(
                    tools,
                    layout,
                    port=port.port,
                    etcd_port=etcd_port.port,
                    feature_gates={},
                    flags=(),
                ),
                layout.apiserver_log,
                fresh.adding("kube-apiserver"),
            )
            with Api(fresh.server, layout.ca_file, token) as api:
                wait_until_ready(api, [etcd, apiserver])
                seed.create_namespaces(api, NAMESPACES)
                seed.apply_crds(api)
            text = commands.kubeconfig_text(layout, fresh.server, token, commands.SYSTEM_NAMESPACE)
            commands.write_kubeconfig(layout.kubeconfig, text)
            fresh.complete = True
            fresh.write()
        except BaseException:
            _end(folder, fresh)
            raise
        finally:
            port.release()
            etcd_port.release()
    return layout.kubeconfig


def down(folder: Path = DEFAULT_FOLDER) -> list[str]:
    """End the cluster in `folder`, half-started ones too, remove its data; say what was done.

    A process that has a recorded pid but another start time is somebody else's and is left alone.
    Raises StandingError.
    """
    folder = _absolute(folder)
    if not folder.exists():
        return [f"no cluster in {folder}"]
    with locked(folder / "lock"):
        record = Record.read(folder)
        if record is None:
            return [f"no cluster in {folder}"]
        return _end(folder, record)


def _end(folder: Path, record: Record | None) -> list[str]:
    lines = []
    # The API server first: without etcd it would log and retry until its turn comes.
    for name, identity in reversed(list(record.processes.items() if record else ())):
        if not identity.alive():
            lines.append(f"{name} (pid {identity.pid}) had ended already")
        elif identity.end():
            lines.append(f"ended {name} (pid {identity.pid})")
        else:
            raise StandingError(f"{name} (pid {identity.pid}) did not end when killed: end it")
    # The lock file stays: who waits for the lock has it open.
    for entry in Layout(folder).entries():
        if entry.is_dir():
            shutil.rmtree(entry)
        else:
            entry.unlink(missing_ok=True)
    return lines


def _absolute(folder: Path) -> Path:
    # Servers are given paths from here and are started with another working folder in mind.
    return folder.absolute()
