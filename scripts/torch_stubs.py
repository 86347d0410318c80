"""Writes empty libraries for those that the CUDA wheel of PyTorch names and that are not installed.

`import torch` fails without cuDNN, cuBLAS and ten other libraries (4 GB) even where there is no GPU. Tests on a machine without
one need their names and symbols only: each missing library gets a file of its soname whose functions end the process. Never for a
machine with a GPU.

Usage: torch_stubs.py FOLDER OUTPUT   (FOLDER holds torch/ and nvidia/, OUTPUT goes into LD_LIBRARY_PATH)
"""

import pathlib
import re
import subprocess
import sys

# Prefixes of the functions without a symbol version, which no library names: any stub may define them.
UNVERSIONED = re.compile(r"^(cu|nvrtc|nccl|nvshmem|nvJitLink)")


def lines_of(*command: str) -> list[str]:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def main(folder: pathlib.Path, output: pathlib.Path) -> None:
    libraries = [*(folder / "torch/lib").glob("*.so*"), *(folder / "torch").glob("_C*.so")]
    present = {path.name for path in [*libraries, *folder.glob("nvidia/*/lib/*.so*")]}
    needed: set[str] = set()
    symbols: dict[tuple[str, str], set[str]] = {}  # By library and version.
    unversioned: set[str] = set()
    defined: set[str] = set()
    for library in libraries:
        named = {
            found[1] for line in lines_of("readelf", "-dW", str(library)) if (found := re.search(r"NEEDED.*\[(.*)\]", line))
        }
        needed |= {name for name in named if re.match(r"lib(cu|nv|nccl)", name)} - present
        owners: dict[str, str] = {}  # Version's index to library.
        library_name = ""
        for line in lines_of("readelf", "-VW", str(library)):
            if found := re.search(r"File: (\S+)", line):
                library_name = found[1]
            elif found := re.search(r"Name: (\S+) .*Version: (\d+)", line):
                owners[found[2]] = library_name
        for line in lines_of("readelf", "--dyn-syms", "-W", str(library)):
            fields = line.split()
            if len(fields) < 8:
                continue
            name, _, version = fields[7].partition("@")
            if fields[6] != "UND":
                defined.add(name)
            elif version:
                owner = owners.get(fields[8].strip("()")) if len(fields) > 8 else None
                if owner in needed:
                    symbols.setdefault((owner, version.lstrip("@")), set()).add(name)
            elif UNVERSIONED.match(name):
                unversioned.add(name)
    unversioned -= defined
    for path in folder.glob("nvidia/*/lib/*.so*"):
        for line in lines_of("readelf", "--dyn-syms", "-W", str(path)):
            fields = line.split()
            if len(fields) >= 8 and fields[6] != "UND":
                unversioned.discard(fields[7].partition("@")[0])

    output.mkdir(parents=True, exist_ok=True)
    for index, library_name in enumerate(sorted(needed)):
        versions = {version: names for (owner, version), names in symbols.items() if owner == library_name}
        names = set().union(*versions.values()) if versions else set()
        names |= unversioned if index == 0 else set()
        source = "".join(f"void {name}(void) {{ __builtin_trap(); }}\n" for name in sorted(names)) or "int volador_stub;\n"
        script = "".join(f"{version} {{ global: {'; '.join(sorted(found))}; }};\n" for version, found in versions.items())
        (output / "stub.c").write_text(source)
        (output / "stub.map").write_text(script)
        mapped = [f"-Wl,--version-script={output / 'stub.map'}"] if versions else []
        subprocess.run(
            ["gcc", "-shared", "-fPIC", "-w", f"-Wl,-soname,{library_name}", *mapped]
            + ["-o", str(output / library_name), str(output / "stub.c")],
            check=True,
        )
    for name in ("stub.c", "stub.map"):
        (output / name).unlink(missing_ok=True)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
