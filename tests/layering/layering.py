"""Checks which folder includes which (docs/architecture.md, "Folders are the layers").

layering.py ROOT [--self-test]
Prints a line a wrong include, "file:line: …", and exits with 1 where there is one.
"""

import pathlib
import re
import sys

ALL = {"volador", "runtime", "head", "worker", "tune", "jobs", "experiments", "train", "dashboard", "python-bindings", "cli"}

# What a folder may include besides itself.
MAY_INCLUDE = {
    "runtime": set(),
    "head": {"runtime"},
    "worker": {"runtime"},
    "tune": {"runtime"},
    "jobs": {"runtime"},
    "experiments": {"runtime", "tune"},
    "train": {"runtime", "tune"},
    "dashboard": {"runtime"},
    "volador": ALL - {"train", "cli", "python-bindings"},
    "cli": ALL - {"train", "python-bindings"},
    "python-bindings": ALL,
    "examples": ALL,
    "tests": ALL | {"examples", "tests"},
}

# Headers of libraries that stay behind one folder.
CONFINED = [
    (re.compile(r"caf/"), {"runtime"}, "CAF stays behind runtime/"),
    (re.compile(r"torch/"), {"train", "examples", "tests"}, "only train/, examples/ and tests link LibTorch"),
    (re.compile(r"boost/"), {"dashboard"}, "Boost stays behind dashboard/http_server.h"),
    (re.compile(r"curl/"), {"runtime"}, "libcurl stays behind runtime/outgoing/transfer.h"),
    (re.compile(r"CLI/"), {"cli"}, "command lines are parsed in cli/"),
]

# Headers that some folders inside a layer may not include: (folders, header, why).
INSIDE = [
    (
        ("head/kernel", "head/nodes", "head/scheduling", "head/actors", "head/groups", "head/clients"),
        re.compile(r"runtime/protocol/volador/v1/"),
        "the public API stays out of the modules; head/read_model and head/shell translate",
    ),
    (
        ("head/nodes", "head/scheduling", "head/actors", "head/groups", "head/clients", "head/experiments", "head/read_model"),
        re.compile(r"head/(shell|kernel/core\.h)"),
        "modules know neither the kernel that dispatches to them nor its shell",
    ),
    (("experiments/config",), re.compile(r"tune/"), "a configuration is read without the tuner"),
    (("head/nodes", "head/scheduling", "head/actors", "head/groups"), re.compile(r"head/experiments/"), "actors run without experiments"),
]

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^">]+)[">]')


def problems_of(path, lines):
    """(line number, words) of each wrong include of the file at `path`, relative to the root."""
    folder = path.parts[0]
    allowed = MAY_INCLUDE[folder] | {folder}
    for number, line in enumerate(lines, start=1):
        match = INCLUDE.match(line)
        if not match:
            continue
        target = match.group(2)
        top = target.split("/")[0]
        if "/" in target and top in MAY_INCLUDE and top not in allowed:
            yield number, f"{folder}/ may not include {target}; it may include {', '.join(sorted(allowed))}"
        if match.group(1) == '"' and "/" not in target and folder != "tests":
            yield number, f'"{target}": name our headers from the root of the tree, others in <>'
        for folders, pattern, why in INSIDE:
            if pattern.match(target) and "/".join(path.parts[:2]) in folders:
                yield number, f"{target}: {why}"
        for pattern, folders, why in CONFINED:
            if pattern.match(target) and folder not in folders and folder != "tests":
                yield number, f"{target}: {why}"


def check(root):
    wrong = seen = 0
    for folder in sorted(MAY_INCLUDE):
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in {".h", ".cc"} or "consumer" in path.parts:
                continue
            seen += 1
            for number, words in problems_of(path.relative_to(root), path.read_text().splitlines()):
                print(f"{path.relative_to(root)}:{number}: {words}")
                wrong += 1
    if seen == 0:
        print(f"{root}: no sources found")
        return 1
    print(f"{seen} files, {wrong} wrong includes")
    return 1 if wrong else 0


def self_test():
    cases = [
        ("head/core.cc", '#include "worker/core/worker_core.h"', 1),
        ("worker/spawn.cc", '#include "head/kernel/core.h"', 1),
        ("runtime/ids.cc", '#include "tune/space/space.h"', 1),
        ("tune/run.cc", "#include <caf/all.hpp>", 1),
        ("runtime/actor/loop.cc", "#include <caf/actor.hpp>", 0),
        ("head/core.cc", '#include "runtime/ids.h"', 0),
        ("cli/stop.cc", '#include "head/kernel/core.h"', 0),
        ("cli/stop.cc", "#include <torch/torch.h>", 1),
        ("head/core.cc", '#include "dashboard/dashboard.h"', 1),
        ("dashboard/api.cc", '#include "head/kernel/core.h"', 1),
        ("dashboard/api.cc", '#include "runtime/result.h"', 0),
        ("head/core.cc", "#include <boost/asio.hpp>", 1),
        ("head/core.cc", '#include "core.h"', 1),
        ("head/core.cc", "#include <vector>", 0),
        ("head/core.cc", '// #include "worker/x.h"', 0),
        ("head/actors/actor_life.cc", '#include "runtime/protocol/volador/v1/cluster.pb.h"', 1),
        ("head/read_model/lists.cc", '#include "runtime/protocol/volador/v1/cluster.pb.h"', 0),
        ("head/groups/group_module.cc", '#include "head/kernel/core.h"', 1),
        ("head/nodes/node_module.cc", '#include "head/experiments/experiment_module.h"', 1),
        ("experiments/config/merge.cc", '#include "runtime/yaml/value.h"', 0),
        ("experiments/config/merge.cc", '#include "tune/space/config.h"', 1),
        ("experiments/config/merge.cc", '#include "jobs/job_spec.h"', 1),
    ]
    for path, line, expected in cases:
        found = len(list(problems_of(pathlib.PurePath(path), [line])))
        assert found == expected, f"{path}: {line}: expected {expected}, found {found}"
    print(f"{len(cases)} cases hold")
    return 0


sys.exit(self_test() if "--self-test" in sys.argv else check(pathlib.Path(sys.argv[1])))
