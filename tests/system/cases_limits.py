# SPDX-License-Identifier: MIT
"""Runs every tool, with every type of memory, with only K descriptors, or only K times 16 MiB of address space, for every K.

A run is clean if it ends in time with an exit code of docs/exit-codes.md, gives the reason in one sentence unless the code
is 0, and leaves nothing behind. A message of the dynamic linker before main() begins does not count.
"""
import re
import resource

from harness import SERVER, Failure, check, emulate_command, error_lines, world

MEMORIES = ("host", "gaudi", "cuda", "rocm")
HARDWARE = ("--cuda", "1", "--rocm", "1")
CODES = (0, 1, 2, 3, 125)
MIB = 1 << 20
STEP = 16 * MIB
# Seconds. The run may wait for a limited peer, and a loaded machine is slow.
SECONDS = 40
BEFORE_MAIN = re.compile(r"error while loading shared libraries|prlimit: failed to execute|cannot run|"
                         r"cannot allocate memory in static TLS|rtld|ld-linux|dl-")


def limited(limit, value, command):
    return ["prlimit", f"--{limit}={value}:{value}", *command]


# The message of a limited process names one of these, which are the ways to raise the limits.
NAMES = {"nofile": "ulimit -n", "as": "ulimit -v"}


def check_clean(process, what, client_of=None, limit=None):
    """Checks a process and returns its exit code. `limit`: the limit of this process, whose name must be in the message."""
    code = process.finish(SECONDS)
    text = process.text
    if code == 127 and BEFORE_MAIN.search(text):
        return code
    check(code in CODES, f"{what}: {process} gave {code}", text)
    check("terminate called" not in text, what, text)
    lines = error_lines(text)
    if code != 0:
        # A server that continues reports each failed client; the last line is about its own end.
        check(len(lines) == 1 or (client_of is None and lines), f"{what}: {process}: {len(lines)} sentences", text)
        check(limit is None or NAMES[limit] in lines[-1], f"{what}: {process} does not name the limit", text)
    return code


class Sweep:
    """One tool with one limit; its peer, if it has one, has no limit."""

    def __init__(self, program, limit, tool, memory):
        self.program, self.limit, self.tool, self.memory = program, limit, tool, memory
        self.codes = {}

    def run(self, value):
        """Whether the tool did its work with this limit."""
        if value not in self.codes:
            with world(self.program) as w:
                self.codes[value] = getattr(self, self.tool)(w, value, f"{self.limit}={value}, {self.memory}")
        return self.codes[value] == 0

    def tool_command(self, value, *arguments):
        return limited(self.limit, value, [self.program, *arguments])

    def info(self, w, value, what):
        return check_clean(w.emulated(self.tool_command(value, "info", "-d"), "a", emulate=HARDWARE), what, limit=self.limit)

    def emulate(self, w, value, what):
        command = [*emulate_command(self.program), "--quiet", "--dir", w.base, *HARDWARE, "--", "true"]
        return check_clean(w.run(limited(self.limit, value, command)), what, limit=self.limit)

    def client(self, w, value, what):
        server = w.server("-m", "host", "-s", "64K", "--keep", emulate=HARDWARE)
        command = self.tool_command(value, "client", "127.0.0.1", "-p", server.port, "-m", self.memory, "-s", "64K",
                                    "--timeout", "5")
        code = check_clean(w.emulated(command, "b", emulate=HARDWARE), what, client_of=server, limit=self.limit)
        # The server continues after each end of its client, and ends when it is told to.
        check(server.stop() in (0, 143), what, server.text)
        return code

    def server(self, w, value, what):
        command = self.tool_command(value, *SERVER, "-m", self.memory, "-s", "64K", "--timeout", "5")
        server = w.emulated(command, "a", emulate=HARDWARE)
        port = self.port_of(server)
        if port is None:
            return check_clean(server, what, limit=self.limit)
        client = w.client(port, "-m", "host", "-s", "64K", "--timeout", "5", emulate=HARDWARE)
        served = check_clean(client, what, client_of=server)
        if served != 0 and server.handle.poll() is None:
            server.stop()  # it continues, as it should
            return 1
        return check_clean(server, what, limit=self.limit)

    def perf(self, w, value, what, limit_server=False):
        arguments = ("perf", "write_bw", "--memory", self.memory, "-s", "4096", "-n", "5", "-q", "1")
        plain = [self.program, *arguments]
        narrow = self.tool_command(value, *arguments)
        server = w.emulated([*(narrow if limit_server else plain), "-p", "0"], "a", emulate=HARDWARE)
        port = self.port_of(server)
        of_server, of_client = (self.limit, None) if limit_server else (None, self.limit)
        if port is None:
            return check_clean(server, what, limit=of_server)
        client = w.emulated([*(plain if limit_server else narrow), "-p", port, "127.0.0.1"], "b", emulate=HARDWARE)
        codes = [check_clean(client, what, client_of=server, limit=of_client)]
        if codes[0] == 0 or server.handle.poll() is not None or limit_server:
            codes.append(check_clean(server, what, limit=of_server))
        else:
            self.let_end(server)
        return max(codes)

    def perf_server(self, w, value, what):
        return self.perf(w, value, what, limit_server=True)

    @staticmethod
    def let_end(server):
        """Ends a server that still runs. It may have ended already, because its client failed."""
        try:
            server.stop()
        except Failure:
            server.finish(10)

    @staticmethod
    def port_of(server):
        try:
            return int(server.wait_for(r"Waiting for client connection on port (\d+)", SECONDS)[1])
        except Failure:
            check(server.handle.poll() is not None, "it neither waits nor ends", server.text)
            return None


def descriptors(tool, memories=MEMORIES):
    def case(program):
        for memory in memories:
            sweep = Sweep(program, "nofile", tool, memory)
            value = 3
            while not sweep.run(value):
                value += 1
                check(value < 150, f"{tool} {memory} did not work with 150 descriptors", sweep.codes)
            # If it works once, it works with more, too.
            for more in (1, 2, 5):
                check(sweep.run(value + more), f"{tool} {memory} works with {value}, and not with {more} more")
            print(f"{tool} {memory}: works with {value} descriptors: {summary(sweep)}", flush=True)
    return case


def summary(sweep):
    codes = list(sweep.codes.values())
    return ", ".join(f"exit code {code}: {codes.count(code)}" for code in sorted(set(codes)))


def address_space(tool, memories=MEMORIES):
    """Starts at 16 MiB, in steps of 16 MiB, and ends with the 16 steps below the least with which the tool works, for which
    it searches by halves. Cards and NICs are mapped as a whole: in between there is only one refusal."""
    def case(program):
        for memory in memories:
            sweep = Sweep(program, "as", tool, memory)
            for steps in range(1, 17):
                sweep.run(steps * STEP)
            low, high = 0, 1 << 16
            check(sweep.run(high * STEP), f"{tool} {memory} did not work with 1 TiB", sweep.codes)
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (low, middle) if sweep.run(middle * STEP) else (middle, high)
            for steps in range(max(low - 16, 1), low):
                sweep.run(steps * STEP)
            print(f"{tool} {memory}: works with {high * STEP // MIB} MiB: {summary(sweep)}", flush=True)
    return case


# Tools treat types of memory differently; the last two treat all types alike.
TOOLS = {"server": MEMORIES, "client": MEMORIES, "perf": MEMORIES, "perf_server": MEMORIES, "info": ("all",),
         "emulate": ("all",)}

CASES = {f"limits.{name}.{tool}": make(tool, memories)
         for name, make in (("descriptors", descriptors), ("address_space", address_space))
         for tool, memories in TOOLS.items()}

# A process that a limit ends leaves no core file.
resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
