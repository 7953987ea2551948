#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The network between two machines, in network namespaces: the doctor distinguishes the obstacles for TCP, UDP and large
packets.

way_test.py --list names the cases, way_test.py --program PATH CASE... runs some; PATH is the program of way_main.cpp.
"""
import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))

import case_runner  # noqa: E402
from harness import Failure, Skipped, check, only_root  # noqa: E402

PORT = 7700
SERVER = {4: "10.77.0.2", 6: "fd77::2"}
CLIENT = {4: "10.77.0.1", 6: "fd77::1"}


def command(*words, seconds=30):
    done = subprocess.run([str(word) for word in words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=seconds,
                          check=False)
    check(done.returncode == 0, " ".join(str(word) for word in words), done.stdout, done.stderr)
    return done.stdout


class Network:
    """Three namespaces: `client`, `server`, and a switch or router between them. close() removes them."""

    def __init__(self, program):
        self.program = program
        self.names = {role: f"hbmwire-{role}-{os.getpid()}" for role in ("client", "switch", "server")}
        self.processes = []

    def ip(self, role, words):
        command("ip", "-n", self.names[role], *words.split())

    def make(self, end_mtu, switch_mtu):
        for name in self.names.values():
            command("ip", "netns", "add", name)
        for role in self.names:
            self.ip(role, "link set lo up")
        for role in ("client", "server"):
            self.ip("switch", f"link add name to-{role} type veth peer name eth0 netns {self.names[role]}")
            self.ip(role, f"link set eth0 mtu {end_mtu} up")
            self.ip("switch", f"link set to-{role} mtu {switch_mtu} up")

    def bridge(self):
        self.ip("switch", "link add name bridge0 type bridge")
        self.ip("switch", "link set bridge0 up")
        for role, addresses in (("client", CLIENT), ("server", SERVER)):
            self.ip("switch", f"link set to-{role} master bridge0")
            self.ip(role, f"addr add {addresses[4]}/24 dev eth0")
            self.ip(role, f"addr add {addresses[6]}/64 dev eth0 nodad")

    def route(self):
        """Makes the switch a router between two networks: 10.77.0.0/24 and 10.78.0.0/24."""
        for role, third in (("client", 77), ("server", 78)):
            self.ip("switch", f"addr add 10.{third}.0.254/24 dev to-{role}")
            self.ip(role, f"addr add 10.{third}.0.{1 if role == 'client' else 2}/24 dev eth0")
            self.ip(role, f"route add default via 10.{third}.0.254")
        self.forward("switch")

    def forward(self, role):
        """Lets a machine forward packets. Without forwarding, the kernel drops IPv4 packets without telling the sender."""
        # Disables the rate limit of ICMP messages (icmp(7)), because cases send several packets that cause one.
        command("ip", "netns", "exec", self.names[role], "sh", "-c",
                "echo 1 > /proc/sys/net/ipv4/ip_forward; echo 0 > /proc/sys/net/ipv4/icmp_ratelimit")

    def rules_first(self, role):
        """Makes room for rules before the look-up of the local table. Such rules act like a firewall of that machine."""
        for family in ("-4", "-6"):
            command("ip", family, "-n", self.names[role], "rule", "add", "pref", "100", "lookup", "local")
            command("ip", family, "-n", self.names[role], "rule", "del", "pref", "0")

    def refuse(self, role, protocol, action):
        self.rules_first(role)
        for family in ("-4", "-6"):
            command("ip", family, "-n", self.names[role], "rule", "add", "pref", "10", "iif", "eth0", "ipproto", protocol, "dport",
                    PORT, action)

    def hosts(self, **names):
        """Writes /etc/hosts of the client: ip-netns(8) mounts files of /etc/netns/NAME."""
        folder = pathlib.Path("/etc/netns") / self.names["client"]
        folder.mkdir(parents=True)
        (folder / "hosts").write_text("".join(f"{address} {name}\n" for name, addresses in names.items() for address in addresses))

    def serve(self):
        process = subprocess.Popen(["ip", "netns", "exec", self.names["server"], self.program, "serve", str(PORT)],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.processes.append(process)
        check("listening" in process.stdout.readline(), "the server does not listen")

    def ask(self, *words):
        started = time.monotonic()
        lines = command("ip", "netns", "exec", self.names["client"], self.program, *words).splitlines()
        return Answer([json.loads(line) for line in lines], time.monotonic() - started)

    def close(self):
        for process in self.processes:
            process.stdin.close()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for name in self.names.values():
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
            shutil.rmtree(pathlib.Path("/etc/netns") / name, ignore_errors=True)
        with contextlib.suppress(OSError):  # folders of another test, or of the machine, are left
            pathlib.Path("/etc/netns").rmdir()


class Answer:
    def __init__(self, lines, seconds):
        self.lines, self.seconds = lines, seconds

    def finding(self, name, subject):
        found = [line for line in self.lines if line.get("check") == name and line["subject"] == subject]
        check(len(found) == 1, f"not one finding {name} of {subject}:", self)
        return found[0]

    def expect(self, name, subject, verdict, *parts, remedy=""):
        finding = self.finding(name, subject)
        check(finding["verdict"] == verdict, f"not {verdict}:", self)
        for part in parts:
            check(part in finding["found"], f"no '{part}' found:", self)
        check(remedy in finding["remedy"], f"no '{remedy}' in the remedy:", self)
        check((finding["remedy"] == "") == (verdict == "good"), "exactly good findings have no remedy:", self)

    def value(self, key):
        return next(line[key] for line in self.lines if key in line)

    def __str__(self):
        return f"after {self.seconds:.1f} s\n" + "\n".join(json.dumps(line) for line in self.lines)


@contextlib.contextmanager
def network(program, end_mtu=1500, switch_mtu=1500, routed=False):
    only_root()
    if shutil.which("ip") is None:
        raise Skipped("no ip(8)")
    made = Network(program)
    try:
        try:
            made.make(end_mtu, switch_mtu)
            made.route() if routed else made.bridge()
        except Failure as why:
            raise Skipped(f"no network namespace with veth pairs and a bridge: {why}") from None
        yield made
    finally:
        made.close()


def tcp_place(family):
    return f"{SERVER[4]}:{PORT}" if family == 4 else f"[{SERVER[6]}]:{PORT}"


def reached(program):
    with network(program) as n:
        n.serve()
        n.hosts(peer=SERVER.values())
        answer = n.ask("name", "peer", PORT)
        for family in (4, 6):
            answer.expect("way", tcp_place(family), "good", "reached in")
        check(answer.value("usable") in (tcp_place(4), tcp_place(6)) and answer.seconds < 2, answer)
        answer = n.ask("datagrams", PORT, *SERVER.values())
        for address in SERVER.values():
            answer.expect("way-udp", address, "good")
            answer.expect("way-mtu", address, "good", "packets of 1500 bytes arrive")
        check(answer.seconds < 2, answer)


def refused(program):
    with network(program) as n:
        for family in (4, 6):
            answer = n.ask("name", SERVER[family], PORT)
            answer.expect("way", tcp_place(family), "bad", "no program listens on TCP port 7700", remedy="hbmwire doctor --serve -p 7700")
            check(answer.value("usable") == "" and answer.seconds < 2, answer)
        n.ask("datagrams", PORT, SERVER[4]).expect("way-udp", SERVER[4], "unknown", "that machine rejects UDP port 7700")


def name_unknown(program):
    with network(program) as n:
        n.hosts(peer=SERVER.values())
        answer = n.ask("name", "nosuch.invalid", PORT)
        check(answer.seconds < 15, answer)
        answer.expect("way-name", "nosuch.invalid", "bad", remedy="getent ahosts nosuch.invalid")


def firewall_drops_tcp(program):
    with network(program) as n:
        n.serve()
        n.refuse("server", "tcp", "blackhole")
        answer = n.ask("addresses", tcp_place(4), tcp_place(6))
        for family in (4, 6):
            answer.expect("way", tcp_place(family), "bad", "no answer within", "a firewall drops TCP port 7700",
                          remedy="firewall-cmd --add-port=7700/tcp")
        check(answer.seconds < 7, answer)


def firewall_rejects_tcp(program):
    with network(program) as n:
        n.serve()
        n.forward("server")
        n.refuse("server", "tcp", "prohibit")
        answer = n.ask("addresses", tcp_place(4), tcp_place(6))
        for family in (4, 6):
            answer.expect("way", tcp_place(family), "bad", "a firewall of that machine rejects TCP port 7700",
                          remedy="firewall-cmd --add-port=7700/tcp")
        check(answer.seconds < 2, answer)


def rules_of_this_machine(program):
    with network(program) as n:
        n.serve()
        for route, parts, remedy in (("blackhole", "blackhole route", "ip route del"), ("prohibit", "a rule of this machine forbids", "ip rule"),
                                     ("unreachable", "this machine does not send to it", "ip route get")):
            for family in (4, 6):
                length = 32 if family == 4 else 128
                n.ip("client", f"-{family} route add {route} {SERVER[family]}/{length}")
                answer = n.ask("name", SERVER[family], PORT)
                n.ip("client", f"-{family} route del {route} {SERVER[family]}/{length}")
                answer.expect("way", tcp_place(family), "bad", parts, remedy=remedy)
                check(answer.seconds < 2, answer)


def family_without_route(program):
    """The name's IPv6 address cannot be reached. IPv4 is used, and the report names the other address."""
    with network(program) as n:
        n.serve()
        n.hosts(peer=(SERVER[4], "fd99::2"))
        answer = n.ask("name", "peer", PORT)
        answer.expect("way", tcp_place(4), "good")
        answer.expect("way", f"[fd99::2]:{PORT}", "slow", "no IPv6 route", remedy=f"or name {SERVER[4]}")
        check(answer.value("usable") == tcp_place(4) and answer.seconds < 2, answer)


def silent_address(program):
    """The far end receives the packets, but does not have the address."""
    with network(program) as n:
        n.serve()
        link = json.loads(command("ip", "-n", n.names["server"], "-j", "link", "show", "dev", "eth0"))[0]
        n.ip("client", f"neigh add 10.77.0.9 lladdr {link['address']} nud permanent dev eth0")
        answer = n.ask("name", "10.77.0.9", PORT)
        answer.expect("way", f"10.77.0.9:{PORT}", "bad", "no answer within 3.5 s", remedy="ping 10.77.0.9")
        # A silent address is given up sooner if another address of the name works.
        answer = n.ask("addresses", tcp_place(4), f"10.77.0.9:{PORT}")
        answer.expect("way", f"10.77.0.9:{PORT}", "slow", "no answer within 2.0 s")
        check(answer.seconds < 3.4, answer)


def absent_machine(program):
    """ARP and ND show that no machine has the address, unlike a firewall."""
    with network(program) as n:
        for address, place in (("10.77.0.9", f"10.77.0.9:{PORT}"), ("fd77::9", f"[fd77::9]:{PORT}")):
            answer = n.ask("name", address, PORT)
            answer.expect("way", place, "bad", "does not answer ARP or ND", remedy="VLAN")


def firewall_drops_udp(program):
    with network(program) as n:
        n.serve()
        n.refuse("server", "udp", "blackhole")
        n.ask("name", SERVER[4], PORT).expect("way", tcp_place(4), "good")
        answer = n.ask("datagrams", PORT, *SERVER.values())
        for address in SERVER.values():
            answer.expect("way-udp", address, "unknown", "no answer to UDP datagrams", remedy="UDP port 4791")
        check(0.5 < answer.seconds < 4, answer)


def jumbo_frames_at_the_ends_only(program):
    with network(program, end_mtu=9000, switch_mtu=1500) as n:
        n.serve()
        n.ask("name", SERVER[4], PORT).expect("way", tcp_place(4), "good")
        answer = n.ask("datagrams", PORT, *SERVER.values())
        for address in SERVER.values():
            answer.expect("way-mtu", address, "bad", "packets of 1500 bytes arrive", "eth0 here has an MTU of 9000",
                          remedy="ip link set dev eth0 mtu 1500")
        check([line["arrived"] for line in answer.lines if "arrived" in line] == [1500, 1500] and answer.value("exact"), answer)
        check(answer.seconds < 7, answer)


def unusual_size(program):
    """The limit is no common size, but is found in time, with all addresses."""
    with network(program, end_mtu=9000, switch_mtu=7321) as n:
        n.serve()
        answer = n.ask("datagrams", PORT, *SERVER.values())
        for address in SERVER.values():
            answer.expect("way-mtu", address, "slow", "packets of 7321 bytes arrive, and no larger ones")
        check(answer.seconds < 7, answer)


def ends_that_differ(program):
    with network(program, end_mtu=9000, switch_mtu=9000) as n:
        n.ip("server", "link set eth0 mtu 1500")
        n.serve()
        answer = n.ask("datagrams", PORT, SERVER[4])
        answer.expect("way-mtu", SERVER[4], "slow", "that machine's interface of 1500", remedy="mtu 9000, on that machine")
        n.ip("server", "link set eth0 mtu 9000")
        n.ip("client", "link set eth0 mtu 1500")
        answer = n.ask("datagrams", PORT, SERVER[4])
        answer.expect("way-mtu", SERVER[4], "slow", "packets of 1500 bytes arrive", remedy="ip link set dev eth0 mtu 9000, here")


def jumbo_frames(program):
    with network(program, end_mtu=9000, switch_mtu=9000) as n:
        n.serve()
        answer = n.ask("datagrams", PORT, *SERVER.values())
        for address in SERVER.values():
            answer.expect("way-mtu", address, "good", "packets of 9000 bytes arrive")
        check(answer.seconds < 2, answer)


def router_speaks(program):
    """A router's ICMP messages name the router: no route, a rule, or a link with a smaller MTU."""
    with network(program, end_mtu=9000, switch_mtu=9000, routed=True) as n:
        n.serve()
        n.ask("name", "10.78.0.2", PORT).expect("way", f"10.78.0.2:{PORT}", "good")
        for address, route, part in (("10.79.0.1", "", "the router 10.77.0.254 knows no route to it"),
                                     ("10.79.0.2", "prohibit", "a firewall of the router 10.77.0.254 rejects TCP port 7700"),
                                     ("10.79.0.3", "unreachable", "the router 10.77.0.254 says that it is unreachable")):
            if route:
                n.ip("switch", f"route add {route} {address}")
            n.ask("name", address, PORT).expect("way", f"{address}:{PORT}", "bad", part)
        n.ip("switch", "link set to-server mtu 1500")
        answer = n.ask("datagrams", PORT, "10.78.0.2")
        answer.expect("way-mtu", "10.78.0.2", "bad", "packets of 1500 bytes arrive",
                      "the router 10.77.0.254 says that its next link takes 1500")


CASES = {name: globals()[name] for name in (
    "reached", "refused", "name_unknown", "firewall_drops_tcp", "firewall_rejects_tcp", "rules_of_this_machine",
    "family_without_route", "silent_address", "absent_machine", "firewall_drops_udp", "jumbo_frames_at_the_ends_only",
    "unusual_size", "ends_that_differ", "jumbo_frames", "router_speaks")}

if __name__ == "__main__":
    sys.exit(case_runner.main(__doc__, CASES))
