"""Flag before environment before default, and errors that name all three."""

from __future__ import annotations

import pytest

from whereabouts_fast.settings import ControllerSettings, Listen, SettingsError, describe, load


def test_flag_wins_over_environment_over_default() -> None:
    environ = {"WHEREABOUTS_NAMESPACE": "from-env", "WHEREABOUTS_LISTEN": ":1"}
    got = load(ControllerSettings, {"namespace": "from-flag", "listen": None}, environ)
    assert (got.namespace, got.listen, got.workers) == ("from-flag", ":1", 4)


def test_empty_variable_counts_as_absent() -> None:
    assert load(ControllerSettings, {}, {"WHEREABOUTS_WORKERS": ""}).workers == 4


def test_kubeconfig_has_its_usual_variable() -> None:
    assert load(ControllerSettings, {}, {"KUBECONFIG": "/k"}).kubeconfig == "/k"


def test_every_field_has_unit_reason_and_example() -> None:
    for name, one in describe(ControllerSettings).items():
        assert one.unit, name
        assert one.reason, name
        load(ControllerSettings, {name: one.example}, {})


@pytest.mark.parametrize(
    ("flags", "environ", "words"),
    [
        ({"workers": "many"}, {}, ["--workers=many", "for instance 4"]),
        ({}, {"WHEREABOUTS_WORKERS": "0"}, ["WHEREABOUTS_WORKERS=0", "1 to 256"]),
        ({"listen": "8080"}, {}, ["--listen=8080", "HOST:PORT"]),
        ({"listen": "::1:80"}, {}, ["--listen=::1:80", "brackets"]),
        ({"log_level": "loud"}, {}, ["--log-level=loud", "'info'"]),
        ({"lease_duration": "5"}, {}, ["lease-duration must be longer than renew-deadline"]),
        ({"retry_period": "9"}, {}, ["renew-deadline must be longer"]),
        ({"shutdown_grace": "-1"}, {}, ["--shutdown-grace=-1", "more than 0"]),
    ],
)
def test_bad_values_name_origin_value_and_remedy(
    flags: dict[str, object], environ: dict[str, str], words: list[str]
) -> None:
    with pytest.raises(SettingsError) as caught:
        load(ControllerSettings, flags, environ)
    assert [word for word in words if word not in str(caught.value)] == []


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [(":0", "", 0), ("127.0.0.1:8080", "127.0.0.1", 8080), ("[::1]:80", "::1", 80)],
)
def test_listen_addresses(text: str, host: str, port: int) -> None:
    assert Listen.parse(text) == Listen(host=host, port=port)


def test_flags_and_variables_follow_the_field_name() -> None:
    described = describe(ControllerSettings)["lease_duration"]
    assert described.flag == "--lease-duration"
    assert described.variable == "WHEREABOUTS_LEASE_DURATION"
