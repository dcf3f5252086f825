"""Writes docs/schemas, the JSON Schemas of outputs and of files: make schemas"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from firsttouch.base.encoding import encode_json
from firsttouch.cli import main  # noqa: F401  # which imports all commands
from firsttouch.cli.schemas import json_schema, schemas

FOLDER = Path(__file__).parents[1] / "docs" / "schemas"


def generated() -> dict[str, bytes]:
    """The content of each file by its name."""
    return {f"{name}.schema.json": msgspec.json.format(encode_json(json_schema(name)), indent=1) + b"\n"
            for name in schemas()}  # fmt: skip


@cache
def _validator(name: str) -> Any:
    from jsonschema import Draft202012Validator

    Draft202012Validator.check_schema(schema := json_schema(name))
    return Draft202012Validator(schema)


def assert_valid(name: str, value: object) -> None:
    """Asserts that decoded JSON is what the published schema says."""
    problems = [f"{error.json_path}: {error.message:.200}" for error in _validator(name).iter_errors(value)]
    assert not problems, f"{name}: {'; '.join(problems[:5])}"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, content in generated().items():
        (FOLDER / name).write_bytes(content)
