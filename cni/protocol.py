"""What the runtime asks: environment and standard input, validated into a Request.

Source of the rules: CNI specification 1.1.0, sections "Parameters" and "Configuration format".
Nothing here touches the process: environment and input are handed in.
"""

from __future__ import annotations

from cni import errors, jsontext
from cni.errors import CniError

VERSIONS = ("0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0")
DEFAULT_VERSION = VERSIONS[0]

# Verb -> the variables it cannot do without.
VERBS = {
    "ADD": ("CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME"),
    "CHECK": ("CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME"),
    "DEL": ("CNI_CONTAINERID", "CNI_IFNAME"),
    "GC": ("CNI_PATH",),
    "STATUS": (),
    "VERSION": (),
}
# Verb -> the first version whose configurations may be asked it; VERSION asks about none.
SINCE = {"CHECK": "0.4.0", "GC": "1.1.0", "STATUS": "1.1.0"}

_ALNUM = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
_WORD = _ALNUM | frozenset("_.-")
_TRUE = ("1", "t", "T", "true", "TRUE", "True")
_KNOWN_ARGS = frozenset(
    (
        "IgnoreUnknown",
        "K8S_POD_NAMESPACE",
        "K8S_POD_NAME",
        "K8S_POD_UID",
        "K8S_POD_INFRA_CONTAINER_ID",
        "IP",
        "GATEWAY",
    )
)


class Request:
    """One call of the runtime; texts are empty where the runtime gave none."""

    __slots__ = ("args", "config", "container_id", "ifname", "verb", "version")

    def __init__(self, verb: str) -> None:
        self.verb = verb
        self.container_id = ""
        self.ifname = ""
        self.args: dict[str, str] = {}
        self.config: dict[str, object] = {}
        self.version = DEFAULT_VERSION

    @property
    def podref(self) -> str:
        """Return "namespace/name" of the pod, "/" outside Kubernetes as whereabouts writes it."""
        return (
            self.args.get("K8S_POD_NAMESPACE", "").strip()
            + "/"
            + self.args.get("K8S_POD_NAME", "").strip()
        )

    @property
    def pod_uid(self) -> str:
        """Return the pod's uid, empty when the runtime does not tell it."""
        return self.args.get("K8S_POD_UID", "").strip()

    @property
    def name(self) -> str:
        """Return the configuration's name."""
        name = self.config.get("name")
        return name if isinstance(name, str) else ""


def is_word(text: object) -> bool:
    """Tell whether a text is a valid network name or container id."""
    return isinstance(text, str) and text != "" and text[0] in _ALNUM and _WORD.issuperset(text)


def is_ifname(text: str) -> bool:
    """Tell whether a text is a valid interface name."""
    return (
        0 < len(text.encode("utf-8", "surrogateescape")) < 16
        and text not in (".", "..")
        and not any(c in "/:" or c.isspace() for c in text)
    )


def read_environment(environ: dict[str, str]) -> Request:
    """Read the CNI_* variables; raises CniError 4 naming the variables that are wrong."""
    verb = environ.get("CNI_COMMAND", "")
    needed = VERBS.get(verb)
    if needed is None:
        shown = f'is "{verb}"' if verb else "is not set; this is a CNI plugin, run by a runtime"
        raise CniError(
            errors.ENVIRONMENT,
            f"environment variable CNI_COMMAND {shown}",
            "supported here: " + ", ".join(VERBS),
        )
    missing = [name for name in needed if not environ.get(name)]
    if missing:
        raise CniError(
            errors.ENVIRONMENT,
            f"{verb} needs the environment variable{'s' * (len(missing) > 1)} {', '.join(missing)}",
            "the runtime has to set them (CNI specification, section Parameters)",
        )
    request = Request(verb)
    if "CNI_CONTAINERID" in needed:
        request.container_id = environ["CNI_CONTAINERID"]
        request.ifname = environ["CNI_IFNAME"]
        if not is_word(request.container_id):
            raise CniError(
                errors.ENVIRONMENT,
                f'environment variable CNI_CONTAINERID is "{request.container_id}"',
                "a container id starts alphanumeric, then alphanumerics, _ . -",
            )
        if not is_ifname(request.ifname):
            raise CniError(
                errors.ENVIRONMENT,
                f'environment variable CNI_IFNAME is "{request.ifname}"',
                "an interface name has 1 to 15 bytes, is not . or .., has no / : or white space",
            )
        # A DEL has to succeed for as much as possible: what it does not need cannot stop it.
        request.args = _read_args(environ.get("CNI_ARGS", ""), lenient=verb == "DEL")
    return request


def _read_args(text: str, *, lenient: bool) -> dict[str, str]:
    args: dict[str, str] = {}
    for pair in text.split(";"):
        if not pair.strip():
            continue
        key, equals, value = pair.partition("=")
        if not equals and not lenient:
            raise CniError(
                errors.ENVIRONMENT,
                f'environment variable CNI_ARGS has "{pair}", which is not KEY=VALUE',
                "pairs are separated by ;",
            )
        args[key.strip()] = value
    unknown = sorted(set(args) - _KNOWN_ARGS)
    if unknown and not lenient and args.get("IgnoreUnknown", "") not in _TRUE:
        raise CniError(
            errors.ENVIRONMENT,
            f"environment variable CNI_ARGS has unknown keys: {', '.join(unknown)}",
            "remove them or add IgnoreUnknown=1",
        )
    return args


def read_config(request: Request, raw: bytes) -> None:
    """Read the network configuration into the request; raises CniError 1, 6 or 7."""
    try:
        request.config = jsontext.parse_object(raw)
    except jsontext.JsonError as error:
        raise CniError(
            errors.DECODE,
            f"network configuration on standard input: {error}",
            "the runtime passes the plugin's configuration as one JSON object",
        ) from None
    version = request.config.get("cniVersion") or DEFAULT_VERSION
    if version not in VERSIONS:
        raise CniError(
            errors.INCOMPATIBLE_VERSION,
            f'cniVersion "{version}" of the network configuration is not supported',
            "supported: " + ", ".join(VERSIONS),
        )
    request.version = str(version)
    since = SINCE.get(request.verb, DEFAULT_VERSION)
    if VERSIONS.index(request.version) < VERSIONS.index(since):
        raise CniError(
            errors.INCOMPATIBLE_VERSION,
            f"cniVersion {version} of the network configuration has no {request.verb}",
            f"{request.verb} came with cniVersion {since}",
        )
    name = request.config.get("name")
    if request.verb != "DEL" and not is_word(name):
        shown = f'is "{name}"' if name else "is missing"
        raise CniError(
            errors.CONFIGURATION,
            f"name of the network configuration {shown}",
            "a network name starts alphanumeric, then alphanumerics, _ . -",
        )


def asked_version(raw: bytes) -> str:
    """Return the cniVersion of a configuration that may be anything (VERSION ignores bad input)."""
    try:
        version = jsontext.parse_object(raw).get("cniVersion")
    except jsontext.JsonError:
        version = None
    return version if isinstance(version, str) and version else VERSIONS[-1]
