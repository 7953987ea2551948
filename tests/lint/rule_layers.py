# SPDX-License-Identifier: MIT
"""The allowed includes between layers: base -> counters, verbs, memory, wire, topology -> registration -> transport/*, trace
-> context -> attach, and endpoint with message, mover and connect -> group -> tools.
emulation/ is a separate project beside them.
"""
import os.path
import pathlib
import re

INCLUDE = re.compile(r'\s*#\s*include\s+([<"])([^>"]+)[>"]')

# The layers that each layer of src/ may use, besides itself and include/.
SEES = {
    "base": set(),
    "counters": {"base"},
    "verbs": {"base"},
    "memory": {"base"},
    "wire": {"base"},
    "topology": {"base"},
    "registration": {"base", "counters", "verbs", "memory", "wire", "topology"},
    "transport": {"base", "counters", "verbs", "memory", "wire", "topology", "registration"},
}
SEES["trace"] = SEES["transport"]
SEES["context"] = SEES["transport"] | {"transport", "trace"}
SEES["attach"] = SEES["context"] | {"context"}
# The folders of src/ that make one layer together, and may use each other.
ROOMS = {"endpoint", "message", "mover", "connect"}
for room in ROOMS:
    SEES[room] = SEES["context"] | {"context"} | ROOMS
SEES["group"] = SEES["endpoint"]
# Layers whose folders must not use each other. Files directly in the layer are its interface.
SIBLINGS = {"memory", "transport"}
# The only places that may use the verbs interface.
VERBS = ("src/verbs/", "src/transport/verbs/", "src/transport/rdma_cm/", "tools/perf/verbs/",
         "tools/doctor/evidence/machine_libraries.cpp", "tests/", "bench/", "emulation/nic/", "emulation/tests/", "emulation/bench/")
# The public functions that return objects of libibverbs.
VERBS_NAMES = VERBS + ("include/hbmwire/low_level/native.hpp", "src/registration/native.cpp", "emulation/")
VERBS_NAME = re.compile(r"\b(ibv|IBV)_\w+")
LITERAL_OR_COMMENT = re.compile(r'"(\\.|[^"\\])*"|//.*|/\*.*?\*/')
# Folders that both the product and the emulation use; these folders use neither.
SHARED = ("tests/support", "bench/common")
# Tests of the product that inspect the emulated hardware from inside its process, or make it fail.
EMULATION_TESTERS = ("tests/endpoint", "tests/library")
VERBS_HEADER = re.compile(r"(infiniband|rdma)/")
# The places that may use hwloc.
TOPOLOGY = ("src/topology/", "tools/doctor/evidence/machine_libraries.cpp", "tests/")
TOPOLOGY_HEADER = re.compile(r"hwloc(/|\.h$)")
VENDOR_HEADER = re.compile(r"(hlthunk|synapse_api|synapse_common_types|cuda|cudart|nvml|hip|hsa|amdhip)[\w/]*\.h$|"
                           r"(habanalabs|hip|hsa|misc/habana|drm/habana)\w*/|(drm|uapi|misc)/habana")


def is_below(path, *folders):
    return any(path.as_posix().startswith(folder) for folder in folders)


def resolve(tree, path, name):
    """The file of the tree that an include refers to, found like the compiler does; None for headers of others."""
    for folder in (path.parent, pathlib.Path("src"), pathlib.Path("include"), pathlib.Path("c/include"), pathlib.Path(".")):
        candidate = pathlib.Path(os.path.normpath(folder / name))
        if tree.has(candidate):
            return candidate
    return None


def refuse_own(path, target):
    """The reason why `path` may not include the project's file `target`; None if it may."""
    own, other = path.parts, target.parts
    if own[0] == "include" and other[0] != "include":
        return "the public headers see only each other"
    if own[0] == "c":
        return refuse_c("/".join(own[:2]), other)
    if own[0] == "examples" and other[0] not in ("include", "examples"):
        return "examples see what users see: include/hbmwire/"
    if own[0] == "emulation":
        return refuse_emulation("/".join(own[:2]), other)
    if own[0] == "tools":
        return None if other[0] in ("include", "tools") else "tools see include/ and tools/ only"
    if own[0] in ("tests", "bench"):
        return refuse_tests("/".join(own[:2]), other)
    if other[0] == "c":
        return f"nothing under {own[0]}/ sees the C interface"
    if own[0] != "src":
        return None
    if other[0] == "include":
        return None
    if other[0] != "src":
        return f"nothing under src/ sees {other[0]}/"
    return refuse_layer(own[1:], other[1:])


def refuse_c(folder, other):
    """refuse_own() for a file of the C interface, which has its own headers and an implementation over the public C++ API."""
    if "/".join(other[:2]) == "c/include" or folder == "c/src" and (other[0] == "include" or "/".join(other[:2]) == "c/src"):
        return None
    return "the C interface is made of include/ alone, and its headers and examples see only its own headers"


def refuse_emulation(folder, other):
    """refuse_own() for a file below emulation/<folder>, which builds without the product."""
    shared = {"emulation/tests": "tests/support", "emulation/bench": "bench/common"}.get(folder)
    if other[0] == "emulation" or "/".join(other[:2]) == shared:
        return None
    return f"{folder} sees only emulation/" + (f" and {shared}/" if shared else "")


def refuse_tests(folder, other):
    """refuse_own() for a file below tests/<folder> or bench/<folder>."""
    if folder in SHARED and "/".join(other[:2]) != folder:
        return f"{folder} serves the product and emulation/: it sees only itself"
    if other[0] == "emulation" and folder not in EMULATION_TESTERS:
        return f"of the product, only {' and '.join(EMULATION_TESTERS)} see emulation/"
    return None


def refuse_layer(own, other):
    """refuse_own() for two files of src/, by their paths below it."""
    layer, target = own[0], other[0]
    if layer not in SEES:
        return f"src/{layer} is no layer that tests/lint/rule_layers.py knows"
    if layer != target:
        if target in SEES[layer]:
            return None
        return f"layer {layer} may not include layer {target}"
    if layer in SIBLINGS and len(own) > 2 and len(other) > 2 and own[1] != other[1]:
        return f"{layer}/{own[1]} may not include {layer}/{other[1]}"
    return None


def refuse_foreign(path, name):
    """The reason why `path` may not include the header `name` of another project."""
    if VERBS_HEADER.match(name) and not is_below(path, *VERBS):
        return "only src/verbs, src/transport/verbs, src/transport/rdma_cm, tools/perf/verbs, " \
               "tools/doctor/evidence/machine_libraries.cpp, emulation/nic and tests name the verbs interface"
    if TOPOLOGY_HEADER.match(name) and not is_below(path, *TOPOLOGY):
        return "only src/topology, tools/doctor/evidence/machine_libraries.cpp and tests name hwloc"
    if VENDOR_HEADER.match(name) and not is_below(path, "src/memory/", "emulation/", "tests/"):
        return "only src/memory/<vendor> names a vendor's header"
    return None


def refuse_name(path, line):
    """A name of libibverbs in a line of code where it is not allowed; None if there is none. Names in strings and comments are
    allowed."""
    if is_below(path, *VERBS_NAMES):
        return None
    match = VERBS_NAME.search(LITERAL_OR_COMMENT.sub("", line))
    return match[0] if match else None


def check(tree):
    for path in tree.cpp("include", "src", "c", "tools", "emulation", "examples", "tests", "bench"):
        for number, line in tree.lines(path):
            match = INCLUDE.match(line)
            if not match:
                name = refuse_name(path, line)
                if name:
                    yield f"{path}:{number}: names {name}, which is for src/verbs, src/transport/verbs and tools/perf/verbs: " \
                          "a lane (src/transport/lane.hpp) has words of its own"
                continue
            name = match[2]
            target = resolve(tree, path, name)
            if ".." in pathlib.PurePosixPath(name).parts:
                reason = "an include goes down from src/, include/ or the root, never up"
            elif target is not None:
                reason = refuse_own(path, target)
            else:
                reason = refuse_foreign(path, name)
            if reason:
                yield f"{path}:{number}: includes {name}: {reason}"


GOOD = {
    "include/hbmwire/error.hpp": "#include <string>\n",
    "src/base/fd.hpp": '#include "hbmwire/error.hpp"\n',
    "src/verbs/qp.hpp": '#include <infiniband/verbs.h>\n#include "base/fd.hpp"\n',
    "src/memory/domain.hpp": '#include "base/fd.hpp"\n',
    "src/memory/gaudi/domain.hpp": '#include "memory/domain.hpp"\n',
    "src/memory/host/domain.hpp": '#include "memory/domain.hpp"\n',
    "src/transport/tcp/a.hpp": '#include "verbs/qp.hpp"\n',
    "src/transport/verbs/a.hpp": "#include <infiniband/verbs.h>\n",
    "src/topology/tree.hpp": '#include <hwloc.h>\n#include "base/fd.hpp"\n',
    "src/endpoint/worker.hpp": '#include "transport/tcp/a.hpp"\n',
    "src/endpoint/post.cpp": '// as ibv_post_send(3)\nconst char* call = "ibv_post_send";  // IBV_WR_SEND\n',
    "src/verbs/handles.hpp": "using Queue = ibv_qp*;\n",
    "include/hbmwire/low_level/native.hpp": "struct ibv_context;\n",
    "c/include/hbmwire.h": '#include "hbmwire/c/error.h"\n',
    "c/include/hbmwire/c/error.h": "#include <stdint.h>\n",
    "c/src/put.cpp": '#include "hbmwire.h"\n#include "hbmwire/error.hpp"\n',
    "c/examples/put.c": "#include <hbmwire.h>\n",
    "tools/common/command.hpp": "#include <hbmwire/error.hpp>\n",
    "tools/perf/verbs/lanes.hpp": "#include <infiniband/verbs.h>\n",
    "tools/doctor/evidence/machine_libraries.cpp": "#include <hwloc.h>\n#include <infiniband/verbs.h>\n",
    "emulation/common/world.hpp": "",
    "emulation/tool/main.cpp": '#include "emulation/common/world.hpp"\n',
    "emulation/nic/verbs/qp.cpp": "#include <infiniband/verbs.h>\n",
    "emulation/gaudi/abi/hl_thunk.h": "",
    "emulation/tests/nic/endpoint.hpp": '#include <infiniband/verbs.h>\n#include "tests/support/bytes.hpp"\n',
    "emulation/bench/nic/rows.hpp": '#include <infiniband/verbs.h>\n#include "bench/common/pair.hpp"\n',
    "tests/support/bytes.hpp": "",
    "tests/library/attack.hpp": '#include "emulation/tests/nic/endpoint.hpp"\n',
    "bench/common/pair.hpp": "#include <infiniband/verbs.h>\n",
}
BAD = [
    {"src/base/x.cpp": '#include "verbs/qp.hpp"\n'},
    {"src/memory/host/x.cpp": '#include "memory/gaudi/domain.hpp"\n'},
    {"src/transport/tcp/x.cpp": '#include "transport/verbs/a.hpp"\n'},
    {"src/wire/x.cpp": '#include "memory/domain.hpp"\n'},
    {"src/registration/x.cpp": '#include "endpoint/worker.hpp"\n'},
    {"src/endpoint/x.cpp": '#include "emulation/common/world.hpp"\n'},
    {"src/registration/x.cpp": "#include <infiniband/verbs.h>\n"},
    {"src/endpoint/x.cpp": '#include "../base/fd.hpp"\n'},
    {"src/other/x.cpp": '#include "base/fd.hpp"\n'},
    {"include/hbmwire/x.hpp": "#include <infiniband/verbs.h>\n"},
    {"include/hbmwire/x.hpp": "#include <hlthunk.h>\n"},
    {"include/hbmwire/x.hpp": '#include "base/fd.hpp"\n'},
    {"c/src/x.cpp": '#include "base/fd.hpp"\n'},
    {"c/include/hbmwire/c/x.h": "#include <hbmwire/error.hpp>\n"},
    {"c/examples/x.c": "#include <hbmwire/error.hpp>\n"},
    {"src/endpoint/x.cpp": '#include "hbmwire.h"\n'},
    {"tools/server/x.cpp": '#include "base/fd.hpp"\n'},
    {"tools/perf/x.cpp": '#include <infiniband/verbs.h>\n'},
    {"tools/server/x.cpp": '#include "emulation/common/world.hpp"\n'},
    {"tools/x.cpp": '#include "emulation/common/world.hpp"\n'},
    {"emulation/nic/x.cpp": '#include "verbs/qp.hpp"\n'},
    {"emulation/tool/x.cpp": '#include "tools/common/command.hpp"\n'},
    {"emulation/tool/x.cpp": "#include <hbmwire/error.hpp>\n"},
    {"emulation/nic/x.cpp": '#include "tests/support/bytes.hpp"\n'},
    {"emulation/tests/nic/x.cpp": '#include "bench/common/pair.hpp"\n'},
    {"emulation/tests/nic/x.cpp": '#include "tests/library/attack.hpp"\n'},
    {"emulation/bench/nic/x.cpp": '#include "base/fd.hpp"\n'},
    {"tests/unit/x.cpp": '#include "emulation/common/world.hpp"\n'},
    {"bench/endpoint/x.cpp": '#include "emulation/common/world.hpp"\n'},
    {"tests/support/x.cpp": '#include "base/fd.hpp"\n'},
    {"bench/common/x.cpp": '#include "emulation/common/world.hpp"\n'},
    {"emulation/gaudi/x.cpp": "#include <infiniband/verbs.h>\n"},
    {"src/endpoint/x.cpp": "#include <cuda.h>\n"},
    {"src/endpoint/x.cpp": "#include <hwloc.h>\n"},
    {"tools/doctor/checks/x.cpp": "#include <hwloc.h>\n"},
    {"tools/doctor/checks/x.cpp": "#include <infiniband/verbs.h>\n"},
    {"include/hbmwire/x.hpp": "#include <hwloc/helper.h>\n"},
    {"src/topology/x.cpp": '#include "verbs/qp.hpp"\n'},
    {"src/endpoint/x.cpp": "auto opcode = IBV_WR_SEND;\n"},
    {"src/transport/tcp/x.hpp": "struct ibv_qp;\n"},
    {"src/transport/x.hpp": 'call("ibv_post_send", ibv_post_send(queue));\n'},
    {"src/registration/x.cpp": "ibv_mr* region;\n"},
    {"tools/perf/x.cpp": "int status = IBV_WC_SUCCESS;\n"},
]
