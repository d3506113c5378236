"""Judges CycloneDX files against the strict schema of the version that each names.

usage: cyclonedx.py FILE...   (exit status 1: at least one is invalid)
"""
import json
import sys

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

invalid = 0
for path in sys.argv[1:]:
    with open(path, encoding="utf-8") as f:
        text = f.read()
    version = SchemaVersion.from_version(json.loads(text)["specVersion"])
    error = JsonStrictValidator(version).validate_str(text)
    if error is not None:
        invalid += 1
        print(f"{path}: {error.data.message[:300]}")
sys.exit(invalid > 0)
