"""Settings of every process: each field has its unit, its default and the reason for it.

A value comes from the flag, else from the environment, else from the default here. What is left
empty on purpose (namespace, kubeconfig) is decided later, from the kubeconfig's context.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self, TypeVar, cast, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic_core import ErrorDetails

from whereabouts_fast.ipam import selectors

DEFAULT_NAMESPACE = "kube-system"
LEASE_JITTER = 1.2


class SettingsError(ValueError):
    """A setting cannot be right; the text names flag or variable, value and remedy."""


def setting(
    default: object, *, unit: str, reason: str, example: str, env: str | None = None
) -> Any:
    """Declare a setting; `env` names its variable where that is not WHEREABOUTS_<NAME>."""
    return Field(
        default=default,
        description=reason,
        json_schema_extra={"unit": unit, "env": env, "example": example},
    )


class Listen(BaseModel):
    """Where to serve; an empty host means all addresses, port 0 any free port."""

    model_config = ConfigDict(frozen=True)

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Listen:
        """Read HOST:PORT, with brackets around an IPv6 address; ValueError otherwise."""
        host, colon, port = text.rpartition(":")
        bracketed = host.startswith("[") and host.endswith("]")
        if not colon or not (port.isascii() and port.isdigit()) or int(port) > 65535:
            raise ValueError("must be HOST:PORT with a port from 0 to 65535")
        if ":" in host and not bracketed:
            raise ValueError("an IPv6 address must stand in brackets")
        return cls(host=host[1:-1] if bracketed else host, port=int(port))


class ControllerSettings(BaseModel):
    """Settings of `whereabouts-fast controller`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kubeconfig: str = setting(
        "",
        unit="path",
        reason="Credentials outside a cluster; empty means the service account of the pod.",
        example="~/.kube/config",
        env="KUBECONFIG",
    )
    namespace: str = setting(
        "",
        unit="name",
        reason=(
            "Where pools, slice tables and the lease live; empty means the namespace of the"
            f" kubeconfig's context, else {DEFAULT_NAMESPACE}."
        ),
        example="ipam-system",
    )
    listen: str = setting(
        ":8080",
        unit="host:port",
        reason="Where /metrics, /healthz and /readyz are served; port 0 takes a free one.",
        example="127.0.0.1:8080",
    )
    identity: str = setting(
        "",
        unit="name",
        reason=(
            "Holder name in the lease; a restart under the same name takes its own lease back at"
            " once, so it must be unique to the replica. Empty means host name and a random part."
        ),
        example="whereabouts-fast-0",
    )
    lease_duration: float = setting(
        15.0,
        unit="seconds",
        reason="How long others wait for a silent leader; the default of Kubernetes components.",
        example="15",
    )
    renew_deadline: float = setting(
        10.0,
        unit="seconds",
        reason="A leader that could not renew for so long stops; less than the lease duration.",
        example="10",
    )
    retry_period: float = setting(
        2.0,
        unit="seconds",
        reason="Time between two attempts to take or renew the lease.",
        example="2",
    )
    shutdown_grace: float = setting(
        20.0,
        unit="seconds",
        reason="How long SIGTERM waits for work under way; below the 30 s Kubernetes gives a pod.",
        example="20",
    )
    node_selector: str = setting(
        "",
        unit="label selector",
        reason=(
            "Which nodes may hold slices; empty means all. A node that stops matching gives its"
            " slices back as if it were deleted."
        ),
        example="kubernetes.io/os=linux,node-role.kubernetes.io/edge",
    )
    idle_slice_seconds: float = setting(
        300.0,
        unit="seconds",
        reason=(
            "How long a slice is empty before a node that can do without it gives it back; long"
            " enough for pods that are replaced."
        ),
        example="300",
    )
    workers: int = setting(
        4,
        unit="count",
        reason="Address spaces worked on at once; one space is never worked on twice at once.",
        example="4",
    )
    pools_in_flight: int = setting(
        16,
        unit="count",
        reason="Pool requests of one address space under way at once; more only queue up inside"
        " the API server.",
        example="16",
    )
    self_check_period: float = setting(
        60.0,
        unit="seconds",
        reason="Time between two looks at permissions and definitions while all is right.",
        example="60",
    )
    inconsistency_grace: float = setting(
        30.0,
        unit="seconds",
        reason="How long objects must disagree before that is told; less is mostly work under way,"
        " and an ADD may hold a reservation for its add_deadline_seconds.",
        example="30",
    )
    node_addresses: bool = setting(
        False,
        unit="yes or no",
        reason="Whether /metrics counts the addresses of each node, four series for each network"
        " and node.",
        example="true",
    )
    leak_grace: float = setting(
        15.0,
        unit="seconds",
        reason="How long a pod must be gone before its addresses are released, while its node is"
        " ready: usually the runtime's own DEL comes first.",
        example="15",
    )
    leak_grace_lost: float = setting(
        300.0,
        unit="seconds",
        reason="The same while the pod's node is gone, not ready or unknown, since its containers"
        " may still run; not less than leak-grace.",
        example="300",
    )
    leak_sweep_period: float = setting(
        600.0,
        unit="seconds",
        reason="Time between two looks at all addresses and reservations; events find leaks at"
        " once, this finds what no event told.",
        example="600",
    )
    log_level: Literal["debug", "info", "warning", "error"] = setting(
        "info",
        unit="level",
        reason="At info each line is a change of state.",
        example="debug",
    )
    log_format: Literal["auto", "json", "console"] = setting(
        "auto",
        unit="format",
        reason="auto means console on a terminal and JSON elsewhere.",
        example="json",
    )

    @field_validator("listen")
    @classmethod
    def _listen_is_an_address(cls, value: str) -> str:
        Listen.parse(value)
        return value

    @field_validator("node_selector")
    @classmethod
    def _node_selector_is_one(cls, value: str) -> str:
        selectors.parse(value)
        return value

    @field_validator(
        "lease_duration",
        "renew_deadline",
        "retry_period",
        "shutdown_grace",
        "self_check_period",
        "inconsistency_grace",
        "leak_grace",
        "leak_grace_lost",
        "leak_sweep_period",
        "idle_slice_seconds",
    )
    @classmethod
    def _is_a_time_span(cls, value: float) -> float:
        if not 0 < value < 86400:
            raise ValueError("must be more than 0 and less than a day")
        return value

    @field_validator("workers", "pools_in_flight")
    @classmethod
    def _is_a_small_count(cls, value: int) -> int:
        if not 1 <= value <= 256:
            raise ValueError("must be from 1 to 256")
        return value

    @model_validator(mode="after")
    def _lease_times_fit(self) -> Self:
        # The rule of client-go: a leader must stop before another may start.
        if self.lease_duration <= self.renew_deadline:
            raise ValueError("lease-duration must be longer than renew-deadline")
        if self.renew_deadline <= self.retry_period * LEASE_JITTER:
            raise ValueError(f"renew-deadline must be longer than {LEASE_JITTER} x retry-period")
        return self

    @model_validator(mode="after")
    def _graces_fit(self) -> Self:
        if self.leak_grace_lost < self.leak_grace:
            raise ValueError("leak-grace-lost must not be shorter than leak-grace")
        return self

    @property
    def address(self) -> Listen:
        """The parsed value of `listen`."""
        return Listen.parse(self.listen)


Settings = TypeVar("Settings", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Setting:
    """One field as help and documentation show it; `boolean` flags take no value."""

    name: str
    unit: str
    default: str
    reason: str
    example: str
    variable: str
    boolean: bool
    choices: tuple[str, ...] = ()

    @property
    def flag(self) -> str:
        """The command line flag."""
        return "--" + self.name.replace("_", "-")


def describe(model: type[BaseModel]) -> dict[str, Setting]:
    """Return the settings of a process by field name."""
    described = {}
    for name, field in model.model_fields.items():
        extra = cast("dict[str, str | None]", field.json_schema_extra)
        described[name] = Setting(
            name=name,
            unit=str(extra["unit"]),
            default=str(field.default),
            reason=str(field.description),
            example=str(extra["example"]),
            variable=extra["env"] or "WHEREABOUTS_" + name.upper(),
            boolean=field.annotation is bool,
            choices=get_args(field.annotation),
        )
    return described


def load(
    model: type[Settings], flags: Mapping[str, object], environ: Mapping[str, str]
) -> Settings:
    """Build settings from flags (None = not given), else the environment, else defaults.

    An empty variable counts as absent, since manifests set them so. Raises SettingsError.
    """
    values: dict[str, object] = {}
    origins: dict[str, str] = {}
    described = describe(model)
    for name, one in described.items():
        if flags.get(name) is not None:
            values[name], origins[name] = flags[name], one.flag
        elif environ.get(one.variable):
            values[name], origins[name] = environ[one.variable], one.variable
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise SettingsError(_explain(described, error.errors()[0], origins)) from None


def _explain(
    described: Mapping[str, Setting], problem: ErrorDetails, origins: Mapping[str, str]
) -> str:
    reason = problem["msg"].removeprefix("Value error, ")
    if not problem["loc"]:
        return f"{reason}: set {', '.join(origins.values()) or 'them'} so that they fit"
    one = described[str(problem["loc"][0])]
    origin = origins.get(one.name, one.flag)
    return f"{origin}={problem['input']}: {reason}; for instance {one.example}"
