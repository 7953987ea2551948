# SPDX-License-Identifier: MIT
"""`hbmwire info`: its output for people and programs, with hardware, without it, and after mistakes of beginners."""
import json
import os
import pathlib
import re
import subprocess
import tempfile

from harness import Process, check, check_one_sentence, world

KEYS = {
    "": {"version", "protocols", "settings", "settings_file", "nics", "nics_missing", "memory", "shared_memory", "emulated", "exit_code"},
    "setting": {"name", "value", "default", "choices", "source", "help"},
    "nic": {"name", "pci_address", "numa_node", "firmware", "imports_dmabufs", "scale_up", "limits", "max_peers", "ports",
            "refusal"},
    "port": {"port", "state", "link_layer", "rate_bits_per_second", "mtu_bytes", "gid_index", "gids", "refusal"},
    "gid": {"index", "gid", "type", "interface"},
    "memory": {"type", "library", "devices", "missing"},
    "device": {"index", "name", "pci_address", "numa_node", "size_bytes", "page_bytes", "driven_by", "status",
               "nics"},
    "near": {"name", "pci_address", "numa_node", "distance"},
    "error": {"stage", "code", "text", "remedy", "hint"},
}
DISTANCES = ("PIX", "PHB", "NODE", "SYS", "unknown")


def clean_environment(**more):
    """The environment of this process without this machine's settings."""
    kept = {name: value for name, value in os.environ.items()
            if not re.match(r"HBMWIRE_(GAUDI|CUDA|ROCM|HOST|LOG)_|HBMWIRE_CONFIG$", name)}
    return {**kept, **more}


def without_hardware(**more):
    return clean_environment(SYSFS_PATH="/nonexistent", **more)


def check_keys(kind, thing):
    check(set(thing) == KEYS[kind], f"a {kind or 'whole'} has {sorted(thing)}", f"not {sorted(KEYS[kind])}")


def check_error(error):
    if error is not None:
        check_keys("error", error)
        check(error["text"] and error["stage"] and error["remedy"] in error["text"], error)
        check(error["text"].endswith(f" [{error['hint']}]") == (error["hint"] != "none"), error)


def check_schema(whole):
    """Checks the object against docs/info.md."""
    check_keys("", whole)
    for setting in whole["settings"]:
        check_keys("setting", setting)
    check_error(whole["nics_missing"])
    for nic in whole["nics"]:
        check_keys("nic", nic)
        check_error(nic["refusal"])
        for port in nic["ports"]:
            check_keys("port", port)
            check_error(port["refusal"])
            check(port["link_layer"] in ("Ethernet", "InfiniBand"), port)
            for gid in port["gids"]:
                check_keys("gid", gid)
    check([memory["type"] for memory in whole["memory"]] == ["host", "gaudi", "cuda", "rocm", "dmabuf"], whole["memory"])
    for memory in whole["memory"]:
        check_keys("memory", memory)
        check_error(memory["missing"])
        for device in memory["devices"]:
            check_keys("device", device)
            for near in device["nics"]:
                check_keys("near", near)
                check(near["distance"] in DISTANCES, near)


def output_of(arguments, **options):
    """Standard output, the exit code, and standard error."""
    done = subprocess.run([str(a) for a in arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=30, check=False, **options)
    return done.stdout, done.returncode, done.stderr


def emulated(program, w, emulate, *arguments, **environment):
    return output_of([program, "emulate", "--quiet", "--dir", w.base, *emulate, "--", program, "info", *arguments],
                     env=clean_environment(**environment))


def memory_of(whole, kind):
    return next(memory for memory in whole["memory"] if memory["type"] == kind)


def no_hardware(program):
    """Missing hardware is an answer with remedies, not a failure."""
    text, code, errors = output_of([program, "info", "-d"], env=without_hardware())
    check(code == 0 and errors == "", code, errors)
    for part in ("missing: probe: no RDMA device found", "hbmwire emulate", "libhl-thunk.so", "ibv_devices"):
        check(part in text, f"no {part}", text)
    text, code, errors = output_of([program, "info"], env=without_hardware())
    check(code == 0 and errors == "" and "settings all as by default" in text, text, errors)
    text, code, errors = output_of([program, "info", "--json"], env=without_hardware())
    whole = json.loads(text)
    check_schema(whole)
    check(code == 0 and errors == "" and whole["exit_code"] == 0 and whole["emulated"] is False, text)
    check(whole["nics"] == [] and "no RDMA device" in whole["nics_missing"]["text"], whole["nics_missing"])
    check(memory_of(whole, "gaudi")["devices"] == [], text)


def near_nics(program):
    """Card i and NIC i are below one switch, and hwloc sees that."""
    with world(program) as w:
        text, code, errors = emulated(program, w, ("--nics", "2", "--gaudi", "2"), "--json")
        check(code == 0, code, errors)
        whole = json.loads(text)
        check_schema(whole)
        check(whole["emulated"] is True, text)
        check([nic["name"] for nic in whole["nics"]] == ["emu0", "emu1"], whole["nics"])
        for nic in whole["nics"]:
            port = nic["ports"][0]
            check(nic["imports_dmabufs"] is True and port["state"] == "active", nic)
            check(port["rate_bits_per_second"] == 100_000_000_000, port)
            check(port["gid_index"] in [gid["index"] for gid in port["gids"]], port)
        # The GID of the setting is used; an index without a GID makes the port unusable.
        chosen, code, errors = emulated(program, w, ("--nics", "1"), "--json", HBMWIRE_GID_INDEX="1")
        check(json.loads(chosen)["nics"][0]["ports"][0]["gid_index"] == 1, chosen, errors)
        missing, code, errors = emulated(program, w, ("--nics", "1"), "--json", HBMWIRE_GID_INDEX="200")
        refusal = json.loads(missing)["nics"][0]["ports"][0]["refusal"]
        check("(GID index 200, " in json.dumps(refusal), missing, errors)
        cards = memory_of(whole, "gaudi")["devices"]
        check(len(cards) == 2, "cards", cards)
        for index, card in enumerate(cards):
            first = card["nics"][0]
            check(first["name"] == f"emu{index}" and first["distance"] in ("PIX", "unknown"), card)
            ranks = [DISTANCES.index(near["distance"]) for near in card["nics"]]
            check(ranks == sorted(ranks), card)
        text, code, errors = emulated(program, w, ("--nics", "2", "--gaudi", "2"), "-d")
        check(code == 0, errors)
        check(text.startswith("hbmwire ") and "(emulated hardware)" in text.splitlines()[0], text)
        for part in ("emu1", "port 1   active, RoCE, 100 Gb/s, MTU", "<- used", cards[0]["pci_address"],
                     f"NICs, nearest first: emu0 {cards[0]['nics'][0]['distance']}"):
            check(part in text, f"no {part}", text)


def limits(program):
    """The limits of each NIC, and the number of peers that they allow."""
    with world(program) as w:
        hardware = ("--nics", "2", "--limits", "emu1=qp=100,cq=7,cqe=64,mr=50,srq=0")
        text, code, errors = emulated(program, w, hardware, "--json")
        check(code == 0, code, errors)
        whole = json.loads(text)
        check_schema(whole)
        few = whole["nics"][1]
        check(few["limits"] == {"max_qp": 100, "max_cq": 7, "max_cqe": 64, "max_mr": 50, "max_srq": 0}, few)
        # A worker uses two queue pairs, and each of its endpoints two.
        check(few["max_peers"] == 49, few)
        check(whole["nics"][0]["max_peers"] > 10_000, whole["nics"][0])
        text, code, errors = emulated(program, w, hardware)
        check(code == 0 and "emu1 (active, RoCE, 100 Gb/s; up to 49 peers)" in text, text, errors)
        text, code, errors = emulated(program, w, hardware, "-d")
        check(code == 0 and "limits   up to 49 peers: 100 queue pairs" in text, text, errors)


def every_vendor(program):
    """GPUs of several vendors together; missing ones are listed with the reason."""
    with world(program) as w:
        text, code, errors = emulated(program, w, ("--gaudi", "0", "--cuda", "1", "--rocm", "1"), "--json")
        check(code == 0, errors)
        whole = json.loads(text)
        check_schema(whole)
        for kind in ("cuda", "rocm"):
            devices = memory_of(whole, kind)["devices"]
            check(len(devices) == 1, kind, memory_of(whole, kind))
            check(devices[0]["nics"][0]["name"] == "emu0", devices)
        check(memory_of(whole, "gaudi")["missing"] is not None, memory_of(whole, "gaudi"))


def link_down(program):
    """A port that is down is listed with the reason why it is not used."""
    with world(program) as w:
        text, code, errors = emulated(program, w, ("--nics", "2", "--link", "emu1=down"), "--json")
        check(code == 0, errors)
        port = json.loads(text)["nics"][1]["ports"][0]
        check(port["state"] == "down" and port["gid_index"] is None, port)
        check("the port is not active" in port["refusal"]["text"], port)


def no_permission(program):
    """A NIC whose node may not be opened; the other one works."""
    with world(program) as w:
        faults = ("--nics", "2", "--faults", "fail,call=ibv_open_device,nth=1,errno=13")
        text, code, errors = emulated(program, w, faults, "-d")
        check(code == 0, errors)
        check("not usable: open emu0: ibv_open_device: Permission denied" in text, text)
        check("/dev/infiniband" in text and "<- used" in text, text)


def arguments(program):
    for line in (["--what"], ["-x"], ["extra"], ["-d", "3"]):
        check_one_sentence(Process([program, "info", *line], env=without_hardware()), 2, "see hbmwire info --help")
    for line in (["--help"], ["-h"]):
        text, code, errors = output_of([program, "info", *line])
        check(code == 0 and errors == "", errors)
        for part in ("-d,--devices", "-c,--config", "--json", "HBMWIRE_CONFIG", "Exit code", "Examples"):
            check(part in text, f"no {part}", text)
    text, _, _ = output_of([program, "--help"])
    for command in ("server", "client", "info", "emulate"):
        check(re.search(rf"^  {command} ", text, re.MULTILINE), f"--help does not name {command}", text)


def settings(program):
    """-c prints a settings file that produces the current settings."""
    with tempfile.TemporaryDirectory(prefix="hbmwire-info-") as folder:
        conf = pathlib.Path(folder) / "conf"
        text, code, errors = output_of([program, "info", "-c"],
                                       env=without_hardware(HBMWIRE_GAUDI_OWNER="hl-thunk", HBMWIRE_LOG_LEVEL="error"))
        check(code == 0 and errors == "", errors)
        check("from: environment\nHBMWIRE_GAUDI_OWNER=hl-thunk\n" in text, text)
        conf.write_text(text, encoding="utf-8")
        environment = without_hardware(HBMWIRE_CONFIG=str(conf), HBMWIRE_LOG_LEVEL="info")
        text, code, errors = output_of([program, "info", "-c", "--json"], env=environment)
        check(code == 0, errors)
        whole = json.loads(text)
        check(whole["settings_file"] == str(conf) and "nics" not in whole, text)
        by_name = {setting["name"]: setting for setting in whole["settings"]}
        owner, level = by_name["HBMWIRE_GAUDI_OWNER"], by_name["HBMWIRE_LOG_LEVEL"]
        check(owner["value"] == "hl-thunk" and owner["default"] == "auto", owner)
        check(re.fullmatch(re.escape(str(conf)) + r":\d+", owner["source"]), owner)
        check(level["value"] == "info" and level["source"] == "environment", level)
        text, code, errors = output_of([program, "info"], env=environment)
        check(code == 0 and "HBMWIRE_GAUDI_OWNER=hl-thunk (" in text, text, errors)
        # Settings that are left open have no value.
        check(by_name["HBMWIRE_LINK_TRAFFIC_CLASS"]["value"] == "", by_name)
        environment = without_hardware(HBMWIRE_LINK_TRAFFIC_CLASS="104", HBMWIRE_GID_INDEX="3")
        text, code, errors = output_of([program, "info", "-c"], env=environment)
        check(code == 0 and "\nHBMWIRE_LINK_TRAFFIC_CLASS=104\n" in text and "\nHBMWIRE_GID_INDEX=3\n" in text, text)


def settings_mistakes(program):
    """A wrong setting causes one message and exit code 2 in every command; -c still lists the choices."""
    with tempfile.TemporaryDirectory(prefix="hbmwire-info-") as folder:
        conf = pathlib.Path(folder) / "conf"
        conf.write_text("HBMWIRE_LOG_LEVEL=info\nHBMWIRE_GAUDI_DMABUF=maybe\n", encoding="utf-8")
        cases = (({"HBMWIRE_GAUDI_DMABUFF": "no"}, "the nearest is HBMWIRE_GAUDI_DMABUF"),
                 ({"HBMWIRE_CUDA_DMABUF": "1"}, "HBMWIRE_CUDA_DMABUF takes yes|no|try"),
                 ({"HBMWIRE_CONFIG": str(conf)}, "conf:2: HBMWIRE_GAUDI_DMABUF takes yes|no|try"),
                 ({"HBMWIRE_CONFIG": "/nonexistent/conf"}, "/nonexistent/conf: open: No such file"))
        for variables, part in cases:
            for line in (["info"], ["info", "-d"], ["server", "-m", "host", "-p", "0"]):
                check_one_sentence(Process([program, *line], env=without_hardware(**variables)), 2, part)
            text, code, errors = output_of([program, "info", "-c"], env=without_hardware(**variables))
            check(code == 2 and part in errors and "HBMWIRE_LOG_LEVEL=" in text, text, errors)
            text, code, errors = output_of([program, "info", "--json"], env=without_hardware(**variables))
            whole = json.loads(text)
            check(code == 2 and whole["exit_code"] == 2 and part in whole["error"], text)


def log_level(program):
    """At level debug the log names the libraries that were tried; by default it is silent."""
    for level, wanted in (("debug", True), ("info", False), ("off", False)):
        _, code, errors = output_of([program, "info"], env=without_hardware(HBMWIRE_LOG_LEVEL=level))
        check(code == 0, errors)
        check(("debug: memory host: " in errors) == wanted, level, errors)
        check(("debug: dlopen libhl-thunk.so" in errors) == wanted, level, errors)


CASES = {
    "info.no_hardware": no_hardware,
    "info.near_nics": near_nics,
    "info.limits": limits,
    "info.every_vendor": every_vendor,
    "info.link_down": link_down,
    "info.no_permission": no_permission,
    "info.arguments": arguments,
    "info.settings": settings,
    "info.settings_mistakes": settings_mistakes,
    "info.log_level": log_level,
}
