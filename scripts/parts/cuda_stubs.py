"""Builds stand-ins for the CUDA libraries that torch links to and that nothing calls on a machine without a GPU.

usage: cuda_stubs.py VENV        needs gcc and readelf

The loader refuses torch as long as one library or one symbol is missing. So each stand-in exports exactly the symbols that
torch's own libraries import from it, under the same symbol versions. Every function answers 1, which is an error in each of
these interfaces: a call by mistake fails instead of computing nonsense. Written into torch/lib, where torch looks first.
"""

import collections
import pathlib
import subprocess
import sys
import tempfile

# torch calls these two while it is imported, so they come as real packages; libcuda belongs to the driver and is opened at need.
REAL = {"libcudart.so.13", "libcupti.so.13", "libcuda.so.1"}
STAND_IN = ("libcu", "libnv", "libnccl")
# These libraries have no symbol versions: their symbols are known by how they begin.
PREFIXES = {
    "libcufile.so.0": ("cuFile",),
    "libcusparseLt.so.0": ("cusparseLt",),
    "libnccl.so.2": ("nccl", "pnccl"),
}


def readelf(option, library):
    result = subprocess.run(["readelf", "--wide", option, library], capture_output=True, text=True, check=True)
    return result.stdout.splitlines()


def needed_libraries(library):
    """The names in the DT_NEEDED entries."""
    return {line.split("[")[1].rstrip("]") for line in readelf("--dynamic", library) if "(NEEDED)" in line}


def version_owners(library):
    """Which library each imported symbol version belongs to."""
    owners, current = {}, None
    for line in readelf("--version-info", library):
        if "File: " in line:
            current = line.split("File: ")[1].split()[0]
        elif "Name: " in line and current:
            owners[line.split("Name: ")[1].split()[0]] = current
    return owners


def undefined_symbols(library):
    """Pairs of name and version ("" without one) that the library imports."""
    for line in readelf("--dyn-syms", library):
        fields = line.split()
        if len(fields) >= 8 and fields[6] == "UND":
            name, _, version = fields[7].partition("@")
            yield name, version.lstrip("@")


def survey(libraries):
    """All needed libraries, library -> version -> names, and the names without a known version."""
    needed, unversioned = set(), set()
    versioned = collections.defaultdict(lambda: collections.defaultdict(set))
    for library in libraries:
        needed |= needed_libraries(library)
        owners = version_owners(library)
        for name, version in undefined_symbols(library):
            if version in owners:
                versioned[owners[version]][version].add(name)
            else:
                unversioned.add(name)
    return needed, versioned, unversioned


def build(target, versions, names):
    """Compiles one stand-in with the given names, grouped by version where there are versions."""
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder, "standin.c")
        source.write_text("".join(f"int {name}(void) {{ return 1; }}\n" for name in sorted(names)) or "int nothing;\n")
        command = ["gcc", "-shared", "-fPIC", "-w", "-fno-builtin", "-Wl,-soname," + target.name, "-o", target, source]
        if versions:
            script = pathlib.Path(folder, "standin.map")
            script.write_text("".join(
                "%s { global: %s; };\n" % (version, "; ".join(sorted(group))) for version, group in sorted(versions.items())))
            command.append(f"-Wl,--version-script={script}")
        subprocess.run(command, check=True)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folders = list(pathlib.Path(sys.argv[1]).glob("lib/python3*/site-packages/torch/lib"))
    if len(folders) != 1:
        sys.exit(f"cuda_stubs.py: expected one torch/lib below {sys.argv[1]}, found {len(folders)}")
    needed, versioned, unversioned = survey(sorted(folders[0].glob("*.so")))
    for library in sorted(needed - REAL):
        if not library.startswith(STAND_IN):
            continue
        versions = versioned[library]
        prefixes = PREFIXES.get(library, ())
        names = set().union(*versions.values()) if versions else {n for n in unversioned if prefixes and n.startswith(prefixes)}
        build(folders[0] / library, versions, names)
        print(library, len(names), "symbols")


if __name__ == "__main__":
    main()
