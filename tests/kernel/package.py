# SPDX-License-Identifier: MIT
"""A Debian kernel as a package: fetched by apt from this machine's sources, unpacked once, and kept."""
import contextlib
import fcntl
import json
import lzma
import os
import pathlib
import re
import shutil
import struct
import subprocess
import tarfile
import tempfile

# 6.12 has udmabuf and the dma-heaps, which Debian's 6.1 lacks.
WANTED_SERIES = "6.12"
FALLBACK_SERIES = "6.1"
# The kernel modules that a guest needs; their dependencies are added. Those in the second line are not in every kernel (or are
# built in), and may be missing.
REQUIRED = ("rdma_rxe", "ib_uverbs", "rdma_ucm", "dummy", "virtio_pci", "virtio_net", "vgem")
OPTIONAL = ("crc32_generic", "udmabuf")
# Modules are searched only here, because a kernel has thousands.
FOLDERS = ("crypto", "lib", "net", "drivers/infiniband", "drivers/net", "drivers/virtio", "drivers/dma-buf",
           "drivers/gpu/drm", "drivers/i2c", "drivers/video", "arch/x86/crypto", "fs/configfs")
# To be increased when the unpacked files change.
LAYOUT = 1


class Unavailable(Exception):
    """No guest is possible on this machine; the text gives the reason."""


def cache_folder():
    """The folder of the cache. It is outside the tree, so that it outlives build folders. HBMWIRE_TEST_CACHE overrides it."""
    base = os.environ.get("HBMWIRE_TEST_CACHE")
    if not base:
        base = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "hbmwire"
    folder = pathlib.Path(base).absolute() / "kernel"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextlib.contextmanager
def locked(path):
    """A lock, because cases run in parallel: one fetches or builds, the others wait for it."""
    with open(path, "w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


class Apt:
    """apt with this machine's sources; after `refresh` with its own package lists, which needs no root."""

    def __init__(self, folder):
        self.folder = folder
        self.options = []

    def run(self, program, *arguments, seconds=60, **options):
        command = [program, *self.options, *arguments]
        try:
            return subprocess.run(command, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, timeout=seconds, check=False, **options)
        except subprocess.TimeoutExpired as expired:
            raise Unavailable(f"{program} {' '.join(arguments)} took longer than {expired.timeout:.0f} s") from None

    def images(self, series):
        """The names of image packages of a series, newest first."""
        listed = self.run("apt-cache", "pkgnames", f"linux-image-{series}").stdout.split()
        pattern = re.compile(rf"linux-image-{re.escape(series)}\.[0-9][0-9.]*([+-][a-z0-9]+)?-amd64")
        names = [name for name in listed if pattern.fullmatch(name)]
        names.sort(key=lambda name: [int(number) for number in re.findall(r"\d+", name)], reverse=True)
        return names

    def refresh(self):
        """Fetches new package lists, including those of backports."""
        targets = self.run("apt-get", "indextargets", "--format", "$(REPO_URI)\t$(RELEASE)\t$(COMPONENT)\t$(SIGNED_BY)",
                           "Created-By: Packages").stdout
        codename = re.search(r"^VERSION_CODENAME=(\w+)", pathlib.Path("/etc/os-release").read_text(encoding="utf-8"),
                             re.MULTILINE)
        lines = set()
        for uri, release, component, key in (line.split("\t") for line in targets.splitlines()):
            if codename is None or component != "main" or not release.startswith(codename[1]):
                continue
            # If a source names no key, this file's own text is used.
            signed = f"[signed-by={key}] " if key.startswith("/") else ""
            lines.add(f"deb {signed}{uri} {release} main\n")
            if release == codename[1]:
                lines.add(f"deb {signed}{uri} {release}-backports main\n")
        if not lines:
            raise Unavailable("apt has no source of Debian packages here")
        lists = self.folder / "apt"
        for name in ("lists/partial", "cache/archives/partial", "state"):
            (lists / name).mkdir(parents=True, exist_ok=True)
        (lists / "sources.list").write_text("".join(sorted(lines)), encoding="utf-8")
        self.options = [word for option in (
            f"Dir::Etc::sourcelist={lists}/sources.list", "Dir::Etc::sourceparts=-", f"Dir::State={lists}/state",
            f"Dir::State::lists={lists}/lists", f"Dir::Cache={lists}/cache", "Acquire::http::Timeout=20",
            "Acquire::Retries=1") for word in ("-o", option)]
        self.run("apt-get", "-qq", "update", seconds=180)

    def download(self, name, folder):
        """The .deb of a package ("name", or "name=version"), with its signature chain checked by apt; None if the archive does
        not provide it."""
        self.run("apt-get", "-qq", "download", name, seconds=600, cwd=folder)
        found = list(folder.glob(f"{name.split('=')[0]}_*.deb"))
        return found[0] if found else None


def decompressed_kernel(image):
    """The ELF kernel in a bzImage (Documentation/arch/x86/boot.rst). Unpacked here, because an emulated guest would need
    seconds."""
    if image[0x202:0x206] != b"HdrS":
        raise Unavailable("the kernel package holds no bzImage")
    # setup_sects (0 means 4); payload_offset and payload_length.
    sectors = image[0x1F1] or 4
    offset, length = struct.unpack_from("<II", image, 0x248)
    start = (sectors + 1) * 512 + offset
    payload = image[start:start + length]
    commands = {b"\x28\xb5\x2f\xfd": ["zstd", "-dc", "-q"], b"\xfd7zX": ["xz", "-dc", "--single-stream"],
                b"\x02\x21\x4c\x18": ["lz4", "-dc"], b"\x1f\x8b\x08\x00": ["gzip", "-dc"]}
    command = commands.get(payload[:4])
    if command is None or shutil.which(command[0]) is None:
        raise Unavailable(f"nothing here decompresses this kernel ({payload[:4].hex()})")
    # The bytes after the payload (its size) are trailing garbage for the program, which has written everything by then.
    kernel = subprocess.run(command, input=payload, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                            check=False).stdout
    if kernel[:4] != b"\x7fELF":
        raise Unavailable(f"{command[0]} found no kernel in the package's image")
    return kernel


class Modules:
    """The modules of a package by name, and their dependencies."""

    def __init__(self):
        self.packed = {}
        self.builtin = set()

    def add(self, path, data):
        self.packed[pathlib.PurePath(path).name.split(".")[0].replace("-", "_")] = data

    def content(self, name):
        data = self.packed[name]
        return lzma.decompress(data) if data[:4] == b"\xfd7zX" else data

    def ordered(self, required, optional):
        """{name: content}, each module after its dependencies."""
        order = {}

        def add(name, needed):
            if name in order or name in self.builtin:
                return
            if name not in self.packed:
                if needed:
                    raise Unavailable(f"the kernel package has no module {name}")
                return
            data = self.content(name)
            # From .modinfo: NUL-terminated key=value.
            for depends in re.findall(rb"\0depends=([^\0]*)", data):
                for other in filter(None, depends.decode().split(",")):
                    add(other.replace("-", "_"), True)
            order[name] = data

        # A module that is optional here may be an undeclared dependency of another one (6.1's rxe: crc32).
        for name in optional:
            add(name, False)
        for name in required:
            add(name, True)
        return order


def unpack(deb, folder):
    """Unpacks kernel and modules of a package into a folder; returns a description."""
    modules = Modules()
    image, config, release = None, b"", ""
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", deb], stdout=subprocess.PIPE) as process:
        with tarfile.open(fileobj=process.stdout, mode="r|") as archive:
            for member in archive:
                name = member.name
                if not member.isfile():
                    continue
                if "/boot/vmlinuz-" in name:
                    image, release = archive.extractfile(member).read(), name.partition("vmlinuz-")[2]
                elif "/boot/config-" in name:
                    config = archive.extractfile(member).read()
                elif name.endswith("/modules.builtin"):
                    text = archive.extractfile(member).read().decode()
                    modules.builtin = {pathlib.PurePath(line).stem.replace("-", "_") for line in text.split()}
                elif ".ko" in name and name.partition("/kernel/")[2].startswith(FOLDERS):
                    modules.add(name, archive.extractfile(member).read())
    if image is None:
        raise Unavailable(f"{deb.name} holds no kernel")
    order = modules.ordered(REQUIRED, OPTIONAL)
    (folder / "vmlinux").write_bytes(decompressed_kernel(image))
    (folder / "config").write_bytes(config)
    (folder / "modules").mkdir()
    for name, data in order.items():
        (folder / "modules" / f"{name}.ko").write_bytes(data)
    return {"layout": LAYOUT, "release": release, "package": deb.name, "modules": list(order)}


class Kernel:
    """An unpacked kernel."""

    def __init__(self, folder, description):
        self.image = folder / "vmlinux"
        self.folder = folder
        self.release = description["release"]
        self.package = description["package"]
        self.modules = [(name, folder / "modules" / f"{name}.ko") for name in description["modules"]]
        self.is_fallback = not self.release.startswith(WANTED_SERIES + ".")

    def has(self, option):
        """Whether CONFIG_<option> is set."""
        return re.search(rf"^CONFIG_{option}=[ym]$", (self.folder / "config").read_text(encoding="utf-8"),
                         re.MULTILINE) is not None


def cached(folder, series):
    """The newest kernel of a series that was unpacked before."""
    found = []
    for path in folder.glob(f"linux-image-{series}.*/kernel.json"):
        description = json.loads(path.read_text(encoding="utf-8"))
        if description.get("layout") == LAYOUT:
            found.append((path.stat().st_mtime, path.parent, description))
    if not found:
        return None
    _, where, description = max(found, key=lambda one: one[0])
    return Kernel(where, description)


def fetch(folder, apt, series):
    """A kernel of the series; None if the archive does not have or provide one."""
    for name in apt.images(series)[:2]:
        with tempfile.TemporaryDirectory(dir=folder, prefix="unpack-") as work:
            work = pathlib.Path(work)
            deb = apt.download(name, work)
            if deb is None:
                continue
            tree = work / "tree"
            tree.mkdir()
            description = unpack(deb, tree)
            (tree / "kernel.json").write_text(json.dumps(description, indent=1), encoding="utf-8")
            shutil.rmtree(folder / name, ignore_errors=True)
            tree.rename(folder / name)
            return Kernel(folder / name, description)
    return None


def find_kernel():
    """6.12 from Debian's security archive or backports; else 6.1. It is kept: remove the folder to get a newer one."""
    for program in ("apt-get", "apt-cache", "dpkg-deb"):
        if shutil.which(program) is None:
            raise Unavailable(f"no {program} here, by which a Debian kernel is fetched")
    folder = cache_folder()
    with locked(folder / "lock"):
        known = cached(folder, WANTED_SERIES)
        if known:
            return known
        apt = Apt(folder)
        kernel = fetch(folder, apt, WANTED_SERIES)
        if kernel is None:
            # The machine's lists are missing or too old, or do not include backports.
            apt.refresh()
            kernel = fetch(folder, apt, WANTED_SERIES)
        kernel = kernel or cached(folder, FALLBACK_SERIES) or fetch(folder, apt, FALLBACK_SERIES)
        shutil.rmtree(folder / "apt", ignore_errors=True)
    if kernel is None:
        raise Unavailable(f"apt gives neither a {WANTED_SERIES} nor a {FALLBACK_SERIES} kernel here (no network?)")
    return kernel
