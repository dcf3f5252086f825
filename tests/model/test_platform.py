"""A platform file: its values, what changes them, and what ends a call."""

from __future__ import annotations

import pytest

from firsttouch.errors import UsageError
from firsttouch.model.platform import MissingValue, load_platform, platform_names, platform_of


@pytest.mark.parametrize("name", platform_names())
def test_describes_its_devices_and_host(name: str) -> None:
    platform = load_platform(name)
    assert [d.capabilities.runs_kernels for d in (platform.host, platform.device)] == [False, True]
    assert platform.device.facts["memory_bytes"] == platform.quantity("device.memory").value
    assert platform.machine().devices[0] == platform.host


def test_a_value_is_in_the_programs_units_and_a_rate_is_a_line() -> None:
    platform = load_platform("gh200")
    assert platform.quantity("host.page").value == 65536
    assert platform.curve("link.h2d").of(375e9).value == pytest.approx(1e9)
    assert platform.quantity("link.h2d").ground.rows == ("grace-hopper/transfer.link.h2d.commscope",)


def test_what_if_makes_a_machine_of_its_own() -> None:
    platform = platform_of("model:gh200@host.page=4KiB@driver.counters=off")
    assert (platform.quantity("host.page").value, platform.flag("driver.counters")) == (4096, False)
    assert platform.device.name == "model:gh200@host.page=4KiB@driver.counters=off"
    assert platform.digest == load_platform("gh200").digest


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("gh201", "did you mean 'gh200'"),
        ("gh200@host.pages=4KiB", "unknown value 'host.pages' (did you mean 'host.page'?)"),
        ("gh200@host.page=1KiB", "outside of what is possible"),
        ("gh200@host.page=4GB/s", "unit 'GB/s' does not fit"),
        ("gh200@driver.counters=maybe", "is not on or off"),
        ("./nowhere.json", "nowhere.json: No such file"),
    ],
)
def test_a_wrong_name_or_change_is_refused(name: str, says: str) -> None:
    with pytest.raises(UsageError) as refusal:
        platform_of(f"model:{name}")
    assert says in str(refusal.value)


def test_a_missing_value_has_no_default() -> None:
    with pytest.raises(MissingValue, match=r"gh200 has no value host\.nonsense"):
        load_platform("gh200").quantity("host.nonsense")
