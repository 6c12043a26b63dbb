"""A kubeconfig file, JSON or block-style YAML, as what is needed to talk to one API server."""

from __future__ import annotations

from cni import errors, files, jsontext
from cni.errors import CniError
from whereabouts_fast.ipam import naming

DEFAULT_NAMESPACE = "kube-system"


class Access:
    """Where the API server is, whom to trust, and who we are.

    `name` is what the server's certificate must say. `ca` and the client certificate are PEM
    bytes, empty when absent. `credential` names the file that the identity came from.
    """

    __slots__ = (
        "ca",
        "certificate",
        "credential",
        "host",
        "insecure",
        "key",
        "name",
        "namespace",
        "path",
        "port",
        "prefix",
        "token",
    )

    path: str
    host: str
    port: int
    name: str
    prefix: str
    ca: bytes
    insecure: bool
    token: str
    certificate: bytes
    key: bytes
    namespace: str
    credential: str

    def identity(self) -> tuple[str, bytes, bytes]:
        """Return what a 401 is about, to see whether it has been replaced."""
        return self.token, self.certificate, self.key


def load(path: str) -> Access:
    """Read a kubeconfig's current context; raises CniError 7 naming file, key and remedy."""
    return files.settled(lambda: _load(path), CniError)


def _load(path: str) -> Access:
    return _Config(path, _document(path)).access()


def _document(path: str) -> object:
    try:
        raw = files.read(path)
    except OSError as error:
        raise _wrong(path, f"cannot be read: {error.strerror}") from None
    try:
        if raw.lstrip()[:1] == b"{":
            return jsontext.parse(raw)
        # Only now: JSON is YAML too, and whoever writes it saves loading the reader.
        from cni import yamlblock

        return yamlblock.parse(raw.decode("utf-8"))
    except (jsontext.JsonError, UnicodeDecodeError) as error:
        raise _wrong(path, f"is not JSON: {error}") from None
    except ValueError as error:
        raise _wrong(path, f"is neither JSON nor plain block-style YAML: {error}") from None


def _wrong(path: str, what: str) -> CniError:
    return CniError(
        errors.CONFIGURATION,
        f"kubeconfig {path} {what}",
        "name a readable kubeconfig in ipam.kubernetes.kubeconfig or in the flat file",
    )


class _Config:
    __slots__ = ("folder", "path", "root")

    def __init__(self, path: str, root: object) -> None:
        self.path = path
        self.root = root
        self.folder = path.rpartition("/")[0] or "."

    def entry(self, plural: str, kind: str, name: object) -> dict[str, object]:
        items = self.root.get(plural) if isinstance(self.root, dict) else None
        for item in items if isinstance(items, list) else ():
            if isinstance(item, dict) and item.get("name") == name:
                value = item.get(kind)
                return value if isinstance(value, dict) else {}
        raise _wrong(self.path, f'has no entry named "{name}" under {plural}')

    def access(self) -> Access:
        current = self.root.get("current-context") if isinstance(self.root, dict) else None
        if not current:
            raise _wrong(self.path, "has no current-context")
        context = self.entry("contexts", "context", current)
        cluster = self.entry("clusters", "cluster", context.get("cluster"))
        user_name = context.get("user")
        user = self.entry("users", "user", user_name) if user_name else {}
        access = Access()
        access.path = self.path
        access.namespace = self.text(context, "namespace") or DEFAULT_NAMESPACE
        if not naming.is_object_name(access.namespace):
            raise _wrong(self.path, f'has the impossible namespace "{access.namespace}"')
        self.server(access, cluster)
        access.insecure = cluster.get("insecure-skip-tls-verify") in (True, "true")
        access.ca = self.data(cluster, "certificate-authority")[0]
        if not access.ca and not access.insecure:
            raise _wrong(self.path, "has no certificate-authority for the cluster")
        access.credential = self.path
        access.token = self.token(access, user)
        access.certificate, file = self.data(user, "client-certificate")
        access.credential = file or access.credential
        access.key = self.data(user, "client-key")[0]
        for key in ("exec", "auth-provider", "username"):
            if key in user and not access.token and not access.certificate:
                raise _wrong(self.path, f"asks for {key}; use a token, tokenFile or certificate")
        return access

    def server(self, access: Access, cluster: dict[str, object]) -> None:
        url = self.text(cluster, "server")
        scheme, _, rest = url.partition("://")
        if scheme != "https" or not rest:
            raise _wrong(self.path, f'has the server "{url}", which is not an https URL')
        authority, slash, prefix = rest.partition("/")
        host, port = authority, "443"
        if authority.startswith("["):
            host, _, after = authority[1:].partition("]")
            port = after[1:] if after.startswith(":") else "443" if not after else ""
        elif ":" in authority:
            host, _, port = authority.partition(":")
        if not host or not (port.isascii() and port.isdigit() and 0 < int(port[:6]) < 65536):
            raise _wrong(self.path, f'has the server "{url}" without a usable host and port')
        access.host = host
        access.port = int(port)
        access.name = self.text(cluster, "tls-server-name") or host
        access.prefix = (slash + prefix).rstrip("/")

    def token(self, access: Access, user: dict[str, object]) -> str:
        file = self.text(user, "tokenFile")
        if not file:
            return self.text(user, "token").strip()
        access.credential = self.beside(file)
        token = self.read(access.credential).decode("latin-1").strip()
        if not token.isprintable() or not token:
            raise _wrong(self.path, f"names the tokenFile {access.credential}, which holds none")
        return token

    def data(self, section: dict[str, object], key: str) -> tuple[bytes, str]:
        """Return PEM bytes, inline before file, and the file's name if they came from one."""
        inline = self.text(section, key + "-data")
        if inline:
            import binascii

            try:
                return binascii.a2b_base64(inline, strict_mode=True), ""
            except ValueError:
                raise _wrong(self.path, f"has a {key}-data that is not base64") from None
        file = self.text(section, key)
        if not file:
            return b"", ""
        return self.read(self.beside(file)), self.beside(file)

    def text(self, section: dict[str, object], key: str) -> str:
        value = section.get(key)
        if value is None:
            return ""
        if not isinstance(value, str) or not value.isprintable():
            raise _wrong(self.path, f"has no plain text for {key}")
        return value

    def beside(self, file: str) -> str:
        return file if file.startswith("/") else f"{self.folder}/{file}"

    def read(self, file: str) -> bytes:
        try:
            return files.read(file)
        except OSError as error:
            why = f"cannot be read: {error.strerror}"
            raise _wrong(self.path, f"names {file}, which {why}") from None
