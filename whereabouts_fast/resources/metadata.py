"""What all kinds share: metadata, time stamps, CIDR texts, and how a bad object is described."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from whereabouts_fast.ipam import address

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Model(BaseModel):
    """A part of an object; fields that nobody here reads are left out of the value."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class Metadata(Model):
    """The metadata that decisions or conditional writes need."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = Field("", alias="resourceVersion")
    generation: int = 0
    created: str = Field("", alias="creationTimestamp")
    deleting: str | None = Field(None, alias="deletionTimestamp")
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


def metadata_of(raw: Any) -> Metadata:
    """Decode what can be read of the metadata of an object that is bad elsewhere."""
    found = raw.get("metadata") if isinstance(raw, dict) else None
    if not isinstance(found, dict):
        return Metadata()
    texts = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    return Metadata.model_validate({k: found[k] for k in texts if isinstance(found.get(k), str)})


def problem_of(error: ValidationError) -> str:
    """Name the first field that is wrong, what is wrong with it, and its value."""
    first = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"{where} {_shown(first['input'])}: {first['msg']}"


def read_cidr(text: str) -> tuple[int, int, int]:
    """Return (version, base, prefix) of a range as any version of whereabouts wrote it.

    Host bits are dropped; of `first-last/prefix` only the CIDR counts. Raises AddressError.
    """
    version, value, prefix = address.parse_cidr(text.rpartition("-")[2])
    host_bits = address.width(version) - prefix
    return version, value >> host_bits << host_bits, prefix


def time_text(seconds: float) -> str:
    """Write seconds since the epoch as an RFC 3339 time stamp in UTC, to the microsecond."""
    moment = _EPOCH + timedelta(microseconds=round(seconds * 1e6))
    return moment.isoformat().replace("+00:00", "Z")


def read_time(text: str | None) -> float | None:
    """Return an RFC 3339 time stamp in seconds since the epoch; None when absent or unreadable."""
    try:
        moment = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return ((moment - _EPOCH) // _MICROSECOND) / 1e6


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
