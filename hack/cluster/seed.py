"""What a bare API server lacks before our objects can live in it.

No controller manager runs here: nobody makes service accounts or ends namespaces.
"""

import time
from collections.abc import Iterable
from pathlib import Path

import yaml

from hack.cluster.api import Api, ApiError, JsonObject
from whereabouts_fast.kube.resource import CRDS, NAMESPACES, SERVICE_ACCOUNTS

_ROOT = Path(__file__).parents[2]
CRD_FOLDERS = (_ROOT / "charts" / "whereabouts-fast" / "crds", Path(__file__).parent / "crds")
_SERVED_SECONDS = 30.0


def create_namespaces(api: Api, names: Iterable[str]) -> None:
    """Create namespaces and in each the service account `default`, which pods need."""
    for name in names:
        _create(api, NAMESPACES.path(), {"metadata": {"name": name}})
        _create(api, SERVICE_ACCOUNTS.path(name), {"metadata": {"name": "default"}})


def apply_crds(api: Api, folders: Iterable[Path] = CRD_FOLDERS) -> list[str]:
    """Create every definition found in the folders; return their names once all are served."""
    definitions = [
        document
        for folder in folders
        for file in sorted(folder.glob("*.yaml"))
        for document in yaml.safe_load_all(file.read_text())
        if document
    ]
    for definition in definitions:
        _create(api, CRDS.path(), definition)
    names = {definition["metadata"]["name"] for definition in definitions}
    api.wait_for(
        CRDS.path(),
        lambda found: names <= {crd["metadata"]["name"] for crd in found if _established(crd)},
    )
    for definition in definitions:
        _wait_until_served(api, definition["spec"])
    return sorted(names)


def _wait_until_served(api: Api, spec: JsonObject) -> None:
    """Wait past the moment in which an established kind still answers 404 or 429.

    Raises ApiError when it is not served in the end.
    """
    version = next(v["name"] for v in spec["versions"] if v["served"])
    path = f"/apis/{spec['group']}/{version}/{spec['names']['plural']}?limit=1"
    deadline = time.monotonic() + _SERVED_SECONDS
    while True:
        try:
            api.get(path)
        except ApiError as error:
            # The server has no event for "the storage is ready": asking is the only way.
            if error.status not in (404, 429) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return


def _established(crd: JsonObject) -> bool:
    # Before the first condition is set the server shows the list as null.
    conditions = (crd.get("status") or {}).get("conditions") or []
    return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)


def _create(api: Api, path: str, body: JsonObject) -> None:
    try:
        api.create(path, body)
    except ApiError as failure:
        if failure.reason != "AlreadyExists":
            raise
