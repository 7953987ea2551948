# SPDX-License-Identifier: MIT
"""Reads table.toml: the programs that run, their forms, and their expected results."""
import dataclasses
import fnmatch
import pathlib
import shlex
import tomllib

TABLE = pathlib.Path(__file__).with_name("table.toml")


@dataclasses.dataclass(frozen=True)
class Side:
    program: str
    arguments: str
    expect: tuple = ()

    def command(self, **places):
        """The absolute path and the arguments, with values for {port} and the like."""
        return [f"/usr/bin/{self.program}", *(word.format(**places) for word in shlex.split(self.arguments))]


@dataclasses.dataclass(frozen=True)
class Row:
    name: str
    package: str
    client: Side
    server: Side | None = None
    meet: str = "listen"
    timeout: float = 30
    full: bool = False
    serial: bool = False
    one_node: bool = False
    network: str = ""
    emulate: str = ""
    environment: dict = dataclasses.field(default_factory=dict)
    checks: tuple = ()
    server_ended_by: str = ""
    links: tuple = ()
    leaves: tuple = ()
    terminal: bool = False
    races: str = ""  # output of a program that lost a race of its own: it runs again, at most twice

    @property
    def sides(self):
        return [side for side in (self.server, self.client) if side is not None]


# The keys of a group or a row. A group's text comes before a row's. Other values of a row replace
# those of its group.
TEXTS = ("both", "server", "client")
PATTERNS = ("expect", "expect_server", "expect_client")
SETTINGS = {field.name for field in dataclasses.fields(Row)} - {"name", "client", "server", "full"}
GROUP_ONLY = {"programs", "server_program", "rows"}
ROW_ONLY = {"form", "only", "but_not", "fast"}


def check_keys(said, allowed, where):
    unknown = set(said) - allowed - SETTINGS - set(TEXTS) - set(PATTERNS)
    if unknown:
        raise ValueError(f"{where}: unknown {unknown}")


def matches(program, patterns):
    return any(fnmatch.fnmatchcase(program, pattern) for pattern in patterns)


def make_row(group, entry, program):
    check_keys(entry, ROW_ONLY, f"{program}.{entry['form']}")
    text = {key: " ".join(part[key] for part in (group, entry) if part.get(key)) for key in TEXTS}
    pattern = {key: tuple(group.get(key, ())) + tuple(entry.get(key, ())) for key in PATTERNS}
    settings = {key: part[key] for part in (group, entry) for key in part if key in SETTINGS}
    settings |= {key: tuple(settings.get(key, ())) for key in ("checks", "links", "leaves")}
    server = None
    if settings.get("meet") != "alone":
        server = Side(group.get("server_program", program), f"{text['both']} {text['server']}",
                      pattern["expect"] + pattern["expect_server"])
    client = Side(program, f"{text['both']} {text['client']}", pattern["expect"] + pattern["expect_client"])
    return Row(name=f"{program}.{entry['form']}", client=client, server=server,
               full=not matches(program, entry.get("fast", ["*"])), **settings)


def read(path=TABLE):
    """Every row by name, in the order of the table."""
    rows = {}
    for group in tomllib.loads(path.read_text(encoding="utf-8"))["group"]:
        check_keys(group, GROUP_ONLY, group["programs"])
        for entry in group["rows"]:
            taken = [program for program in group["programs"]
                     if matches(program, entry.get("only", ["*"])) and not matches(program, entry.get("but_not", []))]
            if not taken:
                raise ValueError(f"{group['programs']}: no program takes {entry}")
            for program in taken:
                row = make_row(group, entry, program)
                if row.name in rows:
                    raise ValueError(f"two rows are named {row.name}")
                rows[row.name] = row
    return rows
