"""Where the API server is and who we are to it: kubeconfig or in-cluster configuration.

Loading is kubernetes_asyncio's; reading again after a 401 is ours, because its kubeconfig loader
reads a token file, a client certificate or an exec plugin's answer only once.
"""

import binascii
import os
import ssl
from pathlib import Path
from urllib.request import getproxies, proxy_bypass

import yaml

from whereabouts_fast.kube.errors import ConfigurationError
from whereabouts_fast.kube.library import (
    ApiClient,
    ConfigException,
    Configuration,
    load_incluster_config,
    load_kube_config,
)

# Where a pod finds its token, the cluster's certificate authority and its namespace.
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_UNUSABLE = (
    ConfigException,
    AssertionError,
    AttributeError,
    KeyError,
    TypeError,
    ValueError,
    OSError,
    RuntimeError,
    binascii.Error,
    yaml.YAMLError,
)


class Credentials:
    """One loaded configuration: server URL, TLS settings and the header that says who we are.

    kubeconfig: path of a kubeconfig file, or None for the in-cluster configuration, whose files
    are in `service_account`.
    """

    def __init__(self, kubeconfig: str | None, service_account: Path = SERVICE_ACCOUNT) -> None:
        self._source = kubeconfig
        self._service_account = service_account
        self.configuration = Configuration()
        self.namespace: str | None = None

    async def load(self) -> None:
        """Read everything (again); raises ConfigurationError naming the source."""
        configuration = Configuration()
        try:
            if self._source is None:
                load_incluster_config(  # type: ignore[no-untyped-call]
                    client_configuration=configuration,
                    token_filename=self._service_account / "token",
                    cert_filename=self._service_account / "ca.crt",
                )
                self.namespace = _own_namespace(self._service_account)
            else:
                self.namespace = await _load_file(self._source, configuration)
        except _UNUSABLE as error:
            raise ConfigurationError(_explain(self._source, error)) from error
        self.configuration = configuration

    @property
    def server(self) -> str:
        """URL of the API server without a slash at its end."""
        return str(self.configuration.host).rstrip("/")

    @property
    def server_name(self) -> str | None:
        """The name the server's certificate must have, when it is not the URL's."""
        name = self.configuration.tls_server_name
        return str(name) if name else None

    @property
    def proxy(self) -> str | None:
        """Proxy to use: the kubeconfig's, else the environment's for this server."""
        if self.configuration.proxy:
            return str(self.configuration.proxy)
        scheme, _, rest = self.server.partition("://")
        if proxy_bypass(rest):
            return None
        return getproxies().get(scheme)

    @property
    def tls(self) -> tuple[object, ...]:
        """What a TLS context is made from; another value needs new connections."""
        configuration = self.configuration
        certificate = configuration.cert_file
        return (
            self.server,
            configuration.ssl_ca_cert,
            configuration.verify_ssl,
            certificate and Path(certificate).read_bytes(),
        )

    def api_client(self) -> ApiClient:
        """A new kubernetes_asyncio client, whose connector is used; needs a running loop."""
        try:
            return ApiClient(configuration=self.configuration)
        except (ssl.SSLError, OSError, ValueError) as error:
            raise ConfigurationError(_explain(self._source, error)) from error


async def _load_file(source: str, configuration: Configuration) -> str | None:
    if not os.path.exists(os.path.expanduser(source)):  # noqa: ASYNC240 -- a local file
        # The loader only logs this, and fails later with something else.
        raise ConfigException("no such file")
    loader = await load_kube_config(config_file=source, client_configuration=configuration)
    current = loader.current_context or {}
    namespace = current.get("context", {}).get("namespace")
    return str(namespace) if namespace else None


def _own_namespace(service_account: Path) -> str | None:
    try:
        return (service_account / "namespace").read_text().strip() or None
    except OSError:
        return None


def _explain(source: str | None, error: Exception) -> str:
    what = str(error) or type(error).__name__
    if source is not None:
        return f"kubeconfig {source!r} cannot be used: {what}; give a readable one by --kubeconfig"
    inside = "KUBERNETES_SERVICE_HOST" in os.environ
    remedy = "check the pod's service account" if inside else "outside a pod, use --kubeconfig"
    return f"in-cluster configuration cannot be used: {what}; {remedy}"
