"""What is used of kubernetes_asyncio, without the 800 modules of models that come with it.

The package imports everything it has: 30 MB, and a third of the time that this process takes to
start. So while these few modules are imported, empty packages stand in for their parents. Where
that fails, as with another version of the library it may, all of it is imported.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from types import ModuleType
from typing import Any

_ROOT = "kubernetes_asyncio"
_CLIENT = f"{_ROOT}.client"
_EMPTY = (_ROOT, _CLIENT, f"{_CLIENT}.models")


@contextmanager
def _stand_ins() -> Iterator[Any]:
    """Have empty packages inside the block; yields that of the client. Raises ImportError."""
    spec = None if _ROOT in sys.modules else find_spec(_ROOT)
    if spec is None or not spec.submodule_search_locations:
        raise ImportError("imported already, or not there at all")
    (folder,) = spec.submodule_search_locations
    for name in _EMPTY:
        module = ModuleType(name)
        module.__path__ = [folder + name.removeprefix(_ROOT).replace(".", "/")]
        sys.modules[name] = module
    try:
        yield sys.modules[_CLIENT]
    except BaseException:
        for name in [name for name in sys.modules if name.startswith(f"{_ROOT}.")]:
            del sys.modules[name]
        raise
    finally:
        # Whoever imports the package after us gets the real one.
        for name in _EMPTY:
            sys.modules.pop(name, None)


try:
    with _stand_ins() as client:
        from kubernetes_asyncio.client.configuration import Configuration

        client.Configuration = Configuration
        from kubernetes_asyncio.client.api_client import ApiClient

        client.ApiClient = ApiClient
        from kubernetes_asyncio.config import (
            ConfigException,
            load_incluster_config,
            load_kube_config,
        )
except (ImportError, AttributeError):
    from kubernetes_asyncio.client import ApiClient, Configuration
    from kubernetes_asyncio.config import ConfigException, load_incluster_config, load_kube_config

__all__ = [
    "ApiClient",
    "ConfigException",
    "Configuration",
    "load_incluster_config",
    "load_kube_config",
]
