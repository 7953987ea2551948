# SPDX-License-Identifier: MIT
"""A guest's file system: a cpio archive of the built tree, Debian's RDMA programs and the libraries of both."""
import os
import pathlib
import re
import shutil
import stat
import subprocess
import tempfile

from package import Unavailable, locked

# Programs of Debian. scripts/setup installs their packages.
PROGRAMS = ("ip", "rdma", "rping", "ibv_devices", "ibv_devinfo", "ibv_rc_pingpong")
APPLETS = """sh mount umount insmod cat echo ls mkdir sleep dmesg poweroff grep sed awk head tail date uname cut tr wc
timeout kill ps env test true false od cmp dd nproc ln rm cp mv seq stty ping nc sync hostname id chmod find sort tee
""".split()
PROVIDER = "rxe"
# The place of the built tree in a guest.
BUILT = pathlib.PurePosixPath("/built")
# pthread_exit loads it by dlopen, so ldd does not name it.
UNNAMED_LIBRARIES = ("libgcc_s.so.1",)


class Archive:
    """The "newc" format of cpio (Documentation/driver-api/early-userspace/buffer-format.rst), which Linux reads at boot."""

    def __init__(self, file):
        self.file = file
        self.entries = 0
        self.folders = set()

    def _entry(self, name, mode, data=b""):
        self.entries += 1
        # Inode, mode, user, group, links, time, size, the file's two device numbers, two of the
        # node, length of the name, checksum.
        fields = (self.entries, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0)
        header = b"070701" + b"".join(b"%08x" % field for field in fields) + name.encode() + b"\0"
        self.file.write(header + b"\0" * (-len(header) % 4) + data + b"\0" * (-len(data) % 4))

    def folder(self, path):
        """Adds a folder, and the folders that contain it."""
        for parent in [*reversed(pathlib.PurePosixPath(path).parents), pathlib.PurePosixPath(path)]:
            name = str(parent).strip("/")
            if name and name != "." and name not in self.folders:
                self.folders.add(name)
                self._entry(name, stat.S_IFDIR | 0o755)

    def add(self, path, data, mode=0o644):
        self.folder(pathlib.PurePosixPath(path).parent)
        self._entry(str(path).lstrip("/"), stat.S_IFREG | mode, data)

    def link(self, path, target):
        self.folder(pathlib.PurePosixPath(path).parent)
        self._entry(str(path).lstrip("/"), stat.S_IFLNK | 0o777, target.encode())

    def close(self):
        self.entries = 0
        self._entry("TRAILER!!!", 0)
        self.file.write(b"\0" * (-self.file.tell() % 512))


def libraries(program):
    """Paths of the shared libraries that a program or library is linked with."""
    listed = subprocess.run(["ldd", program], text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                            check=False).stdout
    return re.findall(r"(?:=> |^\t)(/.+) \(0x[0-9a-f]+\)$", listed, re.MULTILINE)


def system_library(name):
    for folder in ("/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib"):
        if (pathlib.Path(folder) / name).exists():
            return str(pathlib.Path(folder) / name)
    raise Unavailable(f"no {name} here")


def built_files(build):
    """The parts of the built tree for a guest: program, libraries, plugins, and the tests that it runs."""
    tests = build / "tests"
    found = [build / "bin" / "hbmwire", tests / "hbmwire_verbs_conformance", tests / "kernel_dmabuf_test",
             tests / "kernel_gaudi_test", tests / "kernel_gaudi_peer", tests / "libreg_dmabuf_mr.so"]
    for folder in ("lib", "libexec"):
        found += [path for path in sorted((build / folder).rglob("*")) if not path.is_dir() and path.suffix != ".a"]
    return found


def content(path):
    """A file without its debugging information, which is ten times a program's size, and useless in the guest."""
    data = pathlib.Path(path).read_bytes()
    if data[:4] != b"\x7fELF":
        return data
    with tempfile.TemporaryDirectory() as folder:
        stripped = pathlib.Path(folder) / "stripped"
        subprocess.run(["strip", "--strip-debug", "-o", stripped, path], check=True)
        return stripped.read_bytes()


class Tree:
    """The origin of each file of a guest: {path in the guest: path here}."""

    def __init__(self, build):
        self.files = {}
        self.links = {}
        self._build = build.resolve()
        for path in built_files(self._build):
            if path.is_symlink():
                self.links[self._there(path)] = os.readlink(path)
            else:
                self._with_libraries(self._there(path), path)
        for name in PROGRAMS:
            here = shutil.which(name)
            if here is None:
                raise Unavailable(f"no {name} here: scripts/setup test")
            self._with_libraries(f"/usr/bin/{name}", here)
        provider = next(pathlib.Path("/usr/lib/x86_64-linux-gnu/libibverbs").glob(f"lib{PROVIDER}-rdmav*.so"), None)
        if provider is None:
            raise Unavailable(f"rdma-core has no provider for {PROVIDER} here: scripts/setup test")
        self._with_libraries(str(provider), provider)
        self.files[f"/etc/libibverbs.d/{PROVIDER}.driver"] = f"/etc/libibverbs.d/{PROVIDER}.driver"
        for name in UNNAMED_LIBRARIES:
            self._with_libraries(system_library(name), system_library(name))

    def _there(self, path):
        """A file's path in the guest. The built tree may be anywhere here, even below /tmp, where a guest mounts a file
        system."""
        path = pathlib.Path(path)
        return str(BUILT / path.relative_to(self._build)) if path.is_relative_to(self._build) else str(path)

    def _with_libraries(self, there, here):
        self.files[there] = str(here)
        for library in libraries(here):
            self.files[self._there(library)] = library

    def fingerprint(self):
        """A digest that changes when a file changes."""
        lines = [f"{there} -> {target}" for there, target in sorted(self.links.items())]
        for there, here in sorted(self.files.items()):
            status = os.stat(here)
            lines.append(f"{there} {here} {status.st_size} {status.st_mtime_ns}")
        return "\n".join([*lines, pathlib.Path(__file__).read_text(encoding="utf-8")])

    def write(self, path):
        with open(path, "wb") as file:
            archive = Archive(file)
            for there, here in sorted(self.files.items()):
                archive.add(there, content(here), stat.S_IMODE(os.stat(here).st_mode))
            for there, target in sorted(self.links.items()):
                archive.link(there, target)
            archive.close()


def tree_archive(build):
    """The archive of the built tree, shared by all guests; made again when a file has changed."""
    folder = build / "tests" / "kernel"
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder / "tree.lock"):
        tree = Tree(build)
        archive, known = folder / "tree.cpio", folder / "tree.fingerprint"
        fingerprint = tree.fingerprint()
        if not (archive.exists() and known.exists() and known.read_text(encoding="utf-8") == fingerprint):
            known.unlink(missing_ok=True)
            # Guests that are starting can still read the old one to its end.
            tree.write(archive.with_suffix(".new"))
            archive.with_suffix(".new").rename(archive)
            known.write_text(fingerprint, encoding="utf-8")
        return archive


def write_shell(archive):
    """The basis of every guest: busybox, and its mount points."""
    for folder in ("/proc", "/sys", "/dev", "/tmp", "/run", "/root", "/var", "/etc", "/modules"):
        archive.folder(folder)
    busybox = shutil.which("busybox")
    if busybox is None or libraries(busybox):
        raise Unavailable("no statically linked busybox here: scripts/setup test")
    archive.add("/bin/busybox", content(busybox), 0o755)
    for applet in APPLETS:
        archive.link(f"/bin/{applet}", "busybox")


def write_initramfs(path, build, modules, own, bare=False):
    """Writes the tree's archive, unless `bare`; modules, [(name, file)] in their order; a shell; a guest's own files, {path
    there: bytes}."""
    with open(path, "wb") as file:
        if not bare:
            # An initramfs may consist of several archives.
            with open(tree_archive(build), "rb") as tree:
                shutil.copyfileobj(tree, file, 1 << 20)
        archive = Archive(file)
        write_shell(archive)
        for number, (name, module) in enumerate(modules):
            archive.add(f"/modules/{number:03}-{name}.ko", module.read_bytes())
        for there, data in own.items():
            archive.add(there, data, 0o755)
        archive.close()
