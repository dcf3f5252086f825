"""Writes src/firsttouch/records/codebook.json from the codebooks of the experiments of the package: make codebook"""

from __future__ import annotations

from pathlib import Path

import msgspec

from firsttouch.apps import all_apps
from firsttouch.apps.port_programs import port_programs
from firsttouch.experiments import all_experiments
from firsttouch.harness.experiment import Applications
from firsttouch.harness.placements import former_factors

FILE = Path(__file__).parents[1] / "src/firsttouch/records/codebook.json"


def generated() -> bytes:
    experiments = [*all_experiments().values(), *port_programs().values(), Applications()]
    found = {e.name: msgspec.structs.replace(e.codebook, version=e.metric.version) for e in experiments}
    found["app"] = msgspec.structs.replace(found["app"], former=former_factors(all_apps()))
    return msgspec.json.format(msgspec.json.encode(found, order="sorted"), indent=1) + b"\n"


if __name__ == "__main__":
    FILE.write_bytes(generated())
