# SPDX-License-Identifier: MIT
"""The format of a trace, and a check of files against it.

It describes the format that Perfetto and chrome://tracing read (the Trace Event Format, JSON array form), and the members
of `args` that docs/tracing.md promises.
"""
import collections
import json
import math

# The phases in a trace: complete slices, instants and metadata. Members with their types; OPTIONAL has the optional ones.
PHASES = {
    "X": {"name": str, "cat": str, "pid": int, "tid": int, "ts": float, "dur": float, "args": dict},
    "i": {"name": str, "cat": str, "pid": int, "tid": int, "ts": float, "s": str, "args": dict},
    "M": {"name": str, "pid": int, "tid": int, "args": dict},
}
# Metadata that viewers know, with the only member of its args.
METADATA = {"process_name": ("name", str), "thread_name": ("name", str), "thread_sort_index": ("sort_index", int)}
KINDS = {"put", "get", "send", "receive", "atomic", "flush", "immediate", "task"}
PATHS = {"host", "zero_copy", "peer_memory", "nic_loopback", "staged", "copy", "tcp", "ipc", "shared_memory"}
PROTOCOLS = {"direct", "inlined", "eager", "rendezvous_read", "rendezvous_write", "proxied"}
MOVERS = {"list", "message", "staged", "proxied", "copy", "ipc", "rails", "blocks", "connect", "question", "close"}
WAITS = {"room", "order", "fence", "mover", "credit", "lanes", "message"}
MEMORIES = {"host", "gaudi", "cuda", "rocm", "dmabuf"}
# The args of a transfer: whether each transfer has it, and its values or its type.
TRANSFER = {
    "bytes": (True, int), "path": (True, PATHS), "protocol": (True, PROTOCOLS), "by": (False, MOVERS), "nic": (False, str),
    "worker": (True, int), "endpoint": (False, int), "peer": (False, str), "local": (False, MEMORIES),
    "remote": (False, MEMORIES), "posted_us": (False, float), "wait": (False, WAITS), "error": (False, str),
    "code": (False, str), "hint": (False, str),
}
BEGINS = {"hbmwire": (True, str), "wall_clock_us": (True, float)}
ENDS = {"transfers": (True, int), "dropped_busy": (True, int), "dropped_full": (True, int), "error": (False, str)}


class Wrong(AssertionError):
    pass


def need(condition, *what):
    if not condition:
        raise Wrong(" ".join(str(part) for part in what))


def check_type(value, wanted, where):
    if isinstance(wanted, set):
        need(value in wanted, f"{where} is {value!r}, none of {sorted(wanted)}")
    elif wanted is float:
        need(isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value), f"{where} is {value!r}, no number")
    else:
        need(isinstance(value, wanted) and not isinstance(value, bool), f"{where} is {value!r}, no {wanted.__name__}")


def check_args(args, wanted, where):
    for name, (is_needed, kind) in wanted.items():
        need(name in args or not is_needed, f"{where} lacks {name}")
        if name in args:
            check_type(args[name], kind, f"{name} of {where}")
    need(not set(args) - set(wanted), f"{where} has {sorted(set(args) - set(wanted))}, which docs/tracing.md does not know")


def check_event(event):
    """Checks the event's own members, independent of other events."""
    need(isinstance(event, dict), f"{event!r} is no object")
    phase = event.get("ph")
    need(phase in PHASES, f"no trace has a phase {phase!r}: {event}")
    for name, kind in PHASES[phase].items():
        need(name in event, f"{event} lacks {name}")
        check_type(event[name], kind, f"{name} of {event}")
    need(set(event) == set(PHASES[phase]) | {"ph"}, f"{event} has members that its phase does not have")
    need(event["pid"] >= 0 and event["tid"] >= 0, event)
    if phase == "M":
        name, kind = METADATA[event["name"]]
        need(set(event["args"]) == {name}, event)
        check_type(event["args"][name], kind, f"{name} of {event}")
        return
    # In microseconds, with a resolution of a nanosecond.
    need(event["ts"] >= 0, event)
    if phase == "i":
        need(event["s"] == "p" and event["cat"] == "trace", event)
        check_args(event["args"], BEGINS if event["name"] == "trace begins" else ENDS, event["name"])
        return
    need(event["dur"] >= 0, event)
    if event["cat"] == "wait":
        need(event["name"] in WAITS and not event["args"], event)
        return
    need(event["cat"] in ("transfer", "transfer,failed") and event["name"] in KINDS, event)
    args = event["args"]
    check_args(args, TRANSFER, event)
    need(("error" in args) == (event["cat"] == "transfer,failed") == ("code" in args), event)
    need(("endpoint" in args) == ("peer" in args), event)
    # Both are rounded to nanoseconds.
    if "posted_us" in args:
        need(0 <= args["posted_us"] <= event["dur"] + 0.002, event)


def nanoseconds(us):
    return round(us * 1000)


def check_slices(events):
    """Slices of a track are in order, and a slice that begins within another one ends within it."""
    open_slices = collections.defaultdict(list)
    named = set()
    for event in events:
        track = (event["pid"], event["tid"])
        if event["ph"] == "M":
            if event["name"] == "thread_name":
                need(track not in named, f"track {track} is named twice")
                named.add(track)
            continue
        if event["ph"] != "X":
            continue
        need(track in named, f"track {track} has no name: {event}")
        begin = nanoseconds(event["ts"])
        end = begin + nanoseconds(event["dur"])
        stack = open_slices[track]
        if stack:
            need(stack[-1][0] <= begin, f"{event} begins before the slice in front of it")
        # A slice that ends when another one begins has ended. But a wait that begins at the end of its transfer
        # belongs to it.
        while stack and stack[-1][1] <= begin and not (event["cat"] == "wait" and len(stack) == 1):
            stack.pop()
        if stack:
            need(end <= stack[-1][1], f"{event} overlaps the slice in front of it, which ends at {stack[-1][1]}")
        need((event["cat"] == "wait") == bool(stack), f"{event} does not lie as its category should")
        stack.append((begin, end))


def read(path):
    """All events of a complete file."""
    with open(path, encoding="utf-8") as file:
        events = json.load(file)
    need(isinstance(events, list) and len(events) >= 3, f"{path} is no list of events")
    return events


def read_cut_off(path):
    """The events of a file that may end anywhere, and whether it is complete."""
    with open(path, encoding="utf-8", errors="replace") as file:
        lines = file.read().split("\n")
    need(lines and lines[0] == "[", f"{path} does not begin as an array")
    events = []
    for line in lines[1:]:
        if line in ("]", ""):
            continue
        try:
            events.append(json.loads(line.rstrip(",")))
        except json.JSONDecodeError:
            need(line == lines[-1], f"{path}: a line that is none, and not the last: {line[:200]}")
    whole = lines[-2:] == ["]", ""]
    return events, whole


def check_frame(events, whole=True):
    """Checks the first and last events; returns the args of the last one."""
    need(events[0]["ph"] == "M" and events[0]["name"] == "process_name", events[0])
    need(events[1]["ph"] == "i" and events[1]["name"] == "trace begins", events[1])
    need(len({event["pid"] for event in events}) == 1, "events of several processes")
    last = events[-1]
    need((last["name"] == "trace ends") == whole, f"the file {'is' if whole else 'is not'} whole, and ends with {last}")
    begin = nanoseconds(events[1]["ts"])
    end = nanoseconds(last["ts"]) if whole else None
    for event in events:
        if event["ph"] != "X":
            continue
        need(begin <= nanoseconds(event["ts"]), f"{event} begins before the trace")
        need(end is None or nanoseconds(event["ts"]) + nanoseconds(event["dur"]) <= end, f"{event} ends behind the trace")
    return last["args"] if whole else {}


def check(events, whole=True):
    """Checks everything; returns the args of the end."""
    for event in events:
        check_event(event)
    check_slices(events)
    end = check_frame(events, whole)
    count = sum(event.get("cat", "").startswith("transfer") for event in events)
    need(not whole or end["transfers"] == count, f"the end tells of {end}, and there are {count} transfers")
    return end


def totals(events):
    """The number of transfers of each kind, and their bytes."""
    sums = collections.defaultdict(lambda: [0, 0])
    for event in events:
        if event.get("cat", "").startswith("transfer"):
            sums[event["name"]][0] += 1
            sums[event["name"]][1] += event["args"]["bytes"]
    return dict(sums)
