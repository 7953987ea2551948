# SPDX-License-Identifier: MIT
"""How the commands of the documents run here. A block that is in none of the tables runs as it is written.

A key is the document, and how the first command of the block begins.
"""
import dataclasses

# Before each block: `listening` waits until one can connect to the command that was started last.
PREPARE = """
listening() {
  for ((i = 0; i < 300; ++i)); do
    if cat /proc/net/tcp /proc/net/tcp6 | grep -q ' 0A '; then return; fi
    sleep 0.1
  done
  echo "nothing listens"
  return 1
}
"""

# Names of a reader's machine, and of this one.
REPLACE = [
    (r"\bmlx5_(\d)", r"emu\1"),
    (r"\bnode2\b", "localhost"),
    (r"-- COMMAND$", "-- ibv_devices"),
]


@dataclasses.dataclass
class Recipe:
    background: tuple = ()  # the commands, by number, that go on while the others run
    ready: str = "listening"  # waits for a command in the background
    nodes: bool = False  # each command has a node of its own
    before: str = ""
    after: str = ""
    replace: tuple = ()
    says: tuple = ()  # must be in the output
    emulated: bool = True  # where no command starts the emulation, the whole block runs in it


SERVER_FIRST = Recipe(background=(0,))
VERIFIED = Recipe(background=(0,), says=("Verified",))
# The command listens by rdma_cm, which is emulated, so no TCP port shows when it is ready.
LISTENS_BY_RDMA_CM = Recipe(background=(0,), ready="sleep 3")
# The doctor may call emulated hardware slow, which is exit code 4.
DOCTOR = Recipe(background=(0,), nodes=True, replace=((r"^(hbmwire doctor localhost.*)", r"\1 || [ $? = 4 ]"),), says=("Works",))
PERF_SERVER = "hbmwire perf put_bw >/dev/null & listening"
MOVES_BYTES = "HBMWIRE_STATS=yes HBMWIRE_TRACE=t.json ./program >/dev/null"
# A sweep of all sizes takes too long on a machine that runs other tests, so it has fewer iterations.
FEWER = (r" -a\b", " -a -n 100")
# A second measurement on a busy machine may be slower, which the exit code says.
COMPARE = (r"(--compare \w+\.json)", r"\1 || [ $? = 3 ]")

RECIPES = {
    ("docs/doctor.md", "hbmwire doctor --serve"): DOCTOR,
    ("docs/hardware/rocm.md", "build/release/tests/memory_test"): Recipe(replace=(("server -m rocm &", "server -m rocm & listening;"),)),
    ("docs/hbmwire.md", "hbmwire doctor --serve"): DOCTOR,
    ("docs/hbmwire.md", "hbmwire emulate --name a --gaudi 2 -- hbmwire server"): VERIFIED,
    ("docs/info.md", "hbmwire emulate --quiet --nics 2 --gaudi 1"): Recipe(
        says=("(emulated hardware)\n", "emu0 (active, RoCE, 100 Gb/s; up to 32765 peers)", "gaudi2 0001:14:00.0 (near emu0: PIX)")),
    ("docs/man/hbmwire.7.end.md", "printf"): Recipe(before=PERF_SERVER),
    ("docs/perf.md", "hbmwire perf write_bw "): Recipe(background=(0,), nodes=True, replace=(FEWER,)),
    ("docs/perf.md", "hbmwire emulate --name a --gaudi 2 -- hbmwire perf write_bw"): Recipe(background=(0,), replace=(FEWER,)),
    ("docs/perf.md", "hbmwire perf put_bw node2"): Recipe(replace=((r"^hbmwire", f"{PERF_SERVER}; hbmwire"), FEWER, COMPARE)),
    ("docs/server-client.md", "hbmwire server "): Recipe(background=(0,), nodes=True, says=("Verified",)),
    ("docs/server-client.md", "hbmwire emulate --fabric lab -- hbmwire server"): VERIFIED,
    ("docs/server-client.md", "hbmwire server --save"): Recipe(
        (0,), before="mkdir incoming; head -c 3M /dev/urandom >model.tar", after="cmp model.tar incoming/model.tar",
        replace=(("/srv/incoming", "incoming"),)),
    ("docs/stat.md", "HBMWIRE_STATS=yes ./program &"): Recipe(replace=((r"^hbmwire stat$", "sleep 2; hbmwire stat"),)),
    ("docs/stat.md", "hbmwire stat --json 10"): Recipe(before=f"{MOVES_BYTES} & sleep 1", replace=(("json 10", "json 1 2"),)),
    ("docs/trace.md", "zcat"): Recipe(before=f"{MOVES_BYTES}; gzip -k t.json"),
    ("docs/troubleshooting.md", "hbmwire info -d"): Recipe(replace=((r"hbmwire \.\.\.", "hbmwire info"),)),
    ("emulation/README.md", "hbmwire emulate --fabric lab -- ib_write_bw"): LISTENS_BY_RDMA_CM,
    ("emulation/README.md", "hbmwire emulate --faults flip"): Recipe(replace=((r"(flip.*my_test) .*", r"\1 || echo 'my_test failed'"),)),
    ("emulation/docs/emulate.md", "for seed in"): Recipe(replace=(("seq 100", "seq 2"),)),
    ("emulation/docs/emulate.md", "plan="): Recipe(replace=((r"my_test$", "my_test || echo 'my_test failed'"),)),
    ("emulation/docs/emulate.md", "hbmwire emulate --fabric lab --name a -- ib_write_bw"): SERVER_FIRST,
    ("emulation/docs/emulate.md", "hbmwire emulate --fabric lab --name a --link"): Recipe(
        before="hbmwire emulate --fabric lab --name a -- sleep 2 &\nsleep 1", replace=((r"my_test$", "my_test || echo 'my_test failed'"),)),
    ("emulation/docs/programs.md", "hbmwire emulate --fabric lab -- ib_write_bw"): LISTENS_BY_RDMA_CM,
    ("emulation/docs/programs.md", "hbmwire emulate --name a -- rping"): LISTENS_BY_RDMA_CM,
}

# Tests of ctest that run the block.
ELSEWHERE = {
    ("docs/c.md", "cc -std=c11 put.c"): "install.consumers c.example_put",
    ("docs/install.md", "source tools/completion"): "completion.bash completion.zsh",
    ("docs/install.md", "cmake -B build"): "install.parts",
    ("docs/install.md", "scripts/setup build"): "install.wheel",
    ("docs/install.md", "scripts/package"): "package.bookworm package.trixie",
    ("docs/launchers/README.md", "export HBMWIRE_GROUP="): "group.pages.readme",
    ("docs/launchers/etcd.md", "export"): "group.pages.etcd",
    ("docs/launchers/mpirun.md", "mpirun -n 4"): "group.pages.mpirun",
    ("docs/launchers/torchrun.md", "export"): "group.pages.environment",
    ("docs/perf-all.md", "mpirun -n 16"): "group.perf_all.sixteen",
    ("docs/scale.md", "tests/group/ranks.py"): "group.connect_64",
    ("docs/tracing.md", "bpftrace"): "trace.probes.questions",
    ("docs/tutorial-cpp.md", ""): "examples.tutorial_cpp",
    ("docs/tutorial-python.md", ""): "examples.tutorial_python",
    ("emulation/README.md", "cmake -S emulation"): "install.parts",
}

# The reason why the block is not run.
NOT_HERE = {
    ("docs/tracing.md", "L="): "it needs an installed library; trace.probes.questions set L",
    ("CONTRIBUTING.md", "scripts/bundle"): "tests of ctest, hardware.rehearse.*, run the rehearsal; the rest needs a machine with a GPU",
    ("CONTRIBUTING.md", "scripts/test"): "this test runs in scripts/test",
    ("README.md", "scripts/demo"): "this test runs in scripts/test",
    ("docs/c.md", "cmake --build"): "it would change the tree",
    ("docs/hardware/cuda.md", "scripts/bundle"): "it needs a machine with a GPU",
    ("docs/install.md", "scripts/build"): "it would build the tree within its own test; install.consumers installs it",
    ("docs/launchers/kubernetes.md", "kubectl"): "it needs a cluster",
    ("docs/launchers/mpirun.md", "mpirun --hostfile"): "it needs several machines",
    ("docs/launchers/slurm.md", "srun"): "it needs several machines; group.srun runs it on one",
    ("docs/launchers/torchrun.md", "torchrun"): "it needs several machines",
    ("docs/performance.md", "scripts/bench"): "it takes an hour",
    ("docs/python-neighbours.md", "vllm"): "it needs vLLM and a model",
    ("emulation/docs/conformance.md", "cmake --preset"): "it needs the kernel's rxe; hbmwire_verbs_conformance.* run it emulated",
    ("emulation/docs/programs.md", "emulation/tests/programs/run.py"): "it writes the document; programs.* run its rows",
}
