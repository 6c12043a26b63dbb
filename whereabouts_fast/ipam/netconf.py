"""The `ipam` section of a CNI network configuration, as validated values.

`parse` takes what the CNI plugin reads from stdin; `parse_lenient` the same when an attachment is
only to be released, which must work whatever became of the configuration; `ipam_configs` finds
the plugins that are ours in the configuration of a NetworkAttachmentDefinition.
JSON null, and "" for anything but `node_slice_size`, count as absent, as whereabouts has it.
"""

from __future__ import annotations

from whereabouts_fast.ipam import checks
from whereabouts_fast.ipam.checks import ConfigError
from whereabouts_fast.ipam.networks import RANGE_KEYS, Network, Section, read_networks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "HINTS_DIR",
    "IPAM_TYPE",
    "OLDEST_CNI_VERSION",
    "ConfigError",
    "NetConf",
    "Network",
    "configuration_path",
    "ipam_configs",
    "parse",
    "parse_lenient",
]

IPAM_TYPE = "whereabouts"
HINTS_DIR = "/run/whereabouts"
OLDEST_CNI_VERSION = "0.1.0"  # what an absent cniVersion means (CNI specification, section 1)

KNOWN_KEYS = RANGE_KEYS | frozenset(
    [
        "type",
        "ipRanges",
        "node_slice_size",
        "network_name",
        "gateway",
        "routes",
        "dns",
        "addresses",
        "enable_overlapping_ranges",
        "kubernetes",
        "configuration_path",
        "log_file",
        "log_level",
        "node_slice_max",
        "node_slice_cooldown",
        "address_cooldown",
        "hints_dir",
        "wait_seconds",
        "add_deadline_seconds",
        "del_deadline_seconds",
        "standalone",
        "overlap_reservations",
    ]
)
IGNORED_KEYS = frozenset(
    [
        "leader_lease_duration",
        "leader_renew_deadline",
        "leader_retry_period",
        "reconciler_cron_expression",
        "sleep_for_race",
        "datastore",
    ]
)


class NetConf:
    """One plugin's configuration.

    `networks` holds one Network per range, in order. `routes` and `addresses` are tuples of
    objects, `dns` an object, each as the CNI result shows it, without empty members. Times are in
    seconds. `ignored` are keys that have no effect here, `unknown` keys that nobody knows,
    `problems` what parse_lenient went past.
    """

    __slots__ = (
        "add_deadline_seconds",
        "addresses",
        "cni_version",
        "del_deadline_seconds",
        "dns",
        "hints_dir",
        "ignored",
        "kubeconfig",
        "log_file",
        "log_level",
        "name",
        "networks",
        "overlap_reservations",
        "problems",
        "routes",
        "standalone",
        "unknown",
        "wait_seconds",
    )

    cni_version: str
    name: str
    networks: tuple[Network, ...]
    routes: tuple[dict[str, Any], ...]
    dns: dict[str, Any]
    addresses: tuple[dict[str, str], ...]
    kubeconfig: str
    hints_dir: str
    wait_seconds: float
    add_deadline_seconds: float
    del_deadline_seconds: float
    standalone: bool
    overlap_reservations: str
    log_file: str
    log_level: str
    ignored: tuple[str, ...]
    unknown: tuple[str, ...]
    problems: tuple[ConfigError, ...]


def parse(config: object, defaults: object = None, fallback_name: str = "") -> NetConf:
    """Read one plugin's flattened configuration, as the CNI runtime hands it over.

    `defaults` is the node's flat file, whose keys are those of `ipam` and yield to them;
    `fallback_name` the network's name when the configuration has none. Raises ConfigError only.
    """
    return _read(config, defaults, fallback_name, strict=True)


def parse_lenient(config: object, defaults: object = None, fallback_name: str = "") -> NetConf:
    """Read as much of a configuration as makes sense, to release what was given under it.

    Never raises. A wrong setting has its default. `networks` is complete or empty: it is empty as
    soon as the identity or slice size of any of them is in doubt. Wrong windows and exclusions do
    not matter, the range is then taken without them.
    """
    return _read(config, defaults, fallback_name, strict=False)


def configuration_path(config: object) -> str:
    """Return the flat file that a configuration asks for, "" when it does not. Never raises."""
    ipam = config.get("ipam") if isinstance(config, dict) else None
    path = ipam.get("configuration_path") if isinstance(ipam, dict) else None
    return path if isinstance(path, str) and path.isprintable() else ""


def ipam_configs(config: object) -> list[dict[str, Any]]:
    """Return the flattened configuration of each plugin in a NAD's config whose IPAM is ours.

    `config` is the decoded JSON, a plugin or a list of plugins; None or a blank text is a NAD that
    leaves its configuration to a file on the node. Members of a list get its name and cniVersion,
    as the CNI library does it. Raises ConfigError for what no CNI runtime could use.
    """
    if config is None or (isinstance(config, str) and not config.strip()):
        return []
    if not isinstance(config, dict):
        raise ConfigError("config", config, "is not a JSON object", "write a CNI configuration")
    if "plugins" not in config:
        return [config] if _is_ours(config, "") else []
    plugins = config["plugins"]
    if not isinstance(plugins, list) or not plugins:
        raise ConfigError("plugins", plugins, "lists no plugin", "list at least one")
    ours = []
    for index, plugin in enumerate(plugins):
        key = f"plugins[{index}]"
        if not isinstance(plugin, dict):
            raise ConfigError(key, plugin, "is not a JSON object", "write a plugin configuration")
        if _is_ours(plugin, key + "."):
            flat = {k: v for k, v in plugin.items() if k not in ("name", "cniVersion")}
            flat.update((k, config[k]) for k in ("name", "cniVersion") if k in config)
            ours.append(flat)
    return ours


def _is_ours(plugin: dict[str, Any], prefix: str) -> bool:
    ipam = {} if plugin.get("ipam") is None else checks.json_object(plugin["ipam"], prefix + "ipam")
    ours: bool = ipam.get("type") == IPAM_TYPE
    if not ours and not plugin.get("type"):
        raise ConfigError(prefix + "type", None, checks.MISSING, "name the CNI plugin")
    return ours


def _read(config: object, defaults: object, fallback_name: str, *, strict: bool) -> NetConf:
    section = Section(strict=strict)
    whole = section.object("configuration", config)
    ipam = section.object("ipam", whole.get("ipam"))
    flat = {} if defaults is None else section.object("flat file", defaults)
    section.places = ((whole, ""),)
    conf = NetConf()
    conf.name = section.get("name", checks.text, fallback_name)
    cni_version = section.get("cniVersion", checks.text, OLDEST_CNI_VERSION)
    section.places = ((ipam, "ipam."), (flat, "flat file: "))
    network_name = section.get("network_name", checks.text, "")
    size = section.get("node_slice_size", checks.slice_size, None)
    certain = not section.problems

    conf.cni_version = cni_version
    conf.routes = section.get("routes", checks.routes, ())
    conf.dns = section.get("dns", checks.dns, {})
    conf.addresses = section.get("addresses", checks.fixed_addresses, ())
    conf.kubeconfig = section.get("kubernetes", checks.kubernetes, "")
    conf.hints_dir = section.get("hints_dir", checks.path, HINTS_DIR)
    conf.wait_seconds = section.get("wait_seconds", checks.seconds(0, checks.HOUR), 5.0)
    conf.add_deadline_seconds = section.get(
        "add_deadline_seconds", checks.seconds(0.1, checks.HOUR), 30.0
    )
    conf.del_deadline_seconds = section.get(
        "del_deadline_seconds", checks.seconds(0.1, checks.HOUR), 15.0
    )
    conf.standalone = section.get("standalone", checks.boolean, False)
    conf.overlap_reservations = section.get("overlap_reservations", checks.reservations, "auto")
    conf.log_file = section.get("log_file", checks.text, "")
    conf.log_level = section.get("log_level", checks.log_level, "")
    section.get("configuration_path", checks.text, "")
    conf.networks = read_networks(section, conf.name, network_name, size) if certain else ()
    conf.ignored = _printable(sorted({key for key in (*ipam, *flat) if _is_ignored(key)}))
    conf.unknown = _printable(_unknown(ipam))
    conf.problems = tuple(section.problems)
    return conf


def _is_ignored(key: str) -> bool:
    return key in IGNORED_KEYS or key.startswith("etcd_")


def _unknown(ipam: dict[str, Any]) -> list[str]:
    unknown = [key for key in ipam if key not in KNOWN_KEYS and not _is_ignored(key)]
    more = ipam.get("ipRanges")
    if more and not ipam.get("range"):
        # They belong to a top-level range; beside ipRanges alone they have no effect.
        unknown += [key for key in ("range_start", "range_end", "exclude") if ipam.get(key)]
    for index, entry in enumerate(more if isinstance(more, list) else []):
        if isinstance(entry, dict):
            unknown += [f"ipRanges[{index}].{key}" for key in entry if key not in RANGE_KEYS]
    return unknown


def _printable(keys: list[str]) -> tuple[str, ...]:
    # Keys are as wild as values: JSON can even spell what UTF-8 cannot.
    return tuple(checks.show(key)[1:-1] for key in keys)
