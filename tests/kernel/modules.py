# SPDX-License-Identifier: MIT
"""Modules of the second tier, built against the kernel that guests boot: Debian's rxe with our diff, and the virtual Gaudi.

Their build needs Debian's headers, kbuild and linux-source of the same version, which apt fetches once and which are kept
beside the kernel. The results are kept until modules/ changes.
"""
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import urllib.parse

from guest import Failure
from package import Apt, Unavailable, locked

SOURCES = pathlib.Path(__file__).resolve().parent / "modules"
RXE = "drivers/infiniband/sw/rxe"
PROGRAMS = ("make", "patch", "xz", "strip", "tar", "dpkg-deb")
# To be increased when the way of building changes.
LAYOUT = 1


def parts():
    """{name of the module: its folder in modules/}"""
    return {"rdma_rxe": SOURCES / "rxe", "virtual_gaudi": SOURCES / "gaudi"}


def fingerprint():
    """A digest that changes when a source file changes."""
    digest = hashlib.sha256(str(LAYOUT).encode())
    for folder in parts().values():
        for path in sorted(folder.iterdir()):
            digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def version_of(kernel):
    """The version of the kernel's Debian package: "6.12.9-1~deb12u1"."""
    return urllib.parse.unquote(kernel.package.split("_")[1])


def packages(kernel):
    """The packages to build the kernel's modules with, as apt names them."""
    series = re.match(r"\d+\.\d+", kernel.release)[0]
    abi, _, flavour = kernel.release.rpartition("-")
    names = (f"linux-headers-{abi}-{flavour}", f"linux-headers-{abi}-common", f"linux-kbuild-{abi}",
             f"linux-source-{series}")
    return [f"{name}={version_of(kernel)}" for name in names]


def compiler(kernel):
    """The compiler that Debian's headers call, with which the kernel was built: gcc-12 in Debian 12, and gcc-14 in 13."""
    named = re.search(r'^CONFIG_CC_VERSION_TEXT="([^ "]+)', (kernel.folder / "config").read_text(encoding="utf-8"),
                      re.MULTILINE)
    return named[1] if named else "x86_64-linux-gnu-gcc"


def run(command, folder, what):
    """Runs a build step. A failure is ours, and contains the output of the compiler."""
    environment = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    done = subprocess.run(["nice", "-n", "5", *command], cwd=folder, text=True, env=environment, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode != 0:
        raise Failure(f"{what}: exit status {done.returncode}\n{done.stdout[-6000:]}")


def download(kernel, folder):
    """Fetches the packages with the machine's own lists, or else with newer lists."""
    apt = Apt(folder)
    wanted = packages(kernel)
    for attempt in range(2):
        found = [apt.download(name, folder) for name in wanted]
        if all(found):
            return found
        if attempt == 0:
            apt.refresh()
    raise Unavailable(f"apt gives no {wanted[found.index(None)]}, which fits {kernel.release} (for a newer kernel, remove "
                      f"{kernel.folder})")


def unpack(debs, folder):
    """Unpacks headers and kbuild like Debian's packages, and the sources of rxe into rxe/."""
    for deb in debs[:-1]:
        subprocess.run(["dpkg-deb", "-x", deb, folder], check=True)
    (folder / "rxe").mkdir()
    subprocess.run(["bash", "-c", 'set -o pipefail; dpkg-deb --fsys-tarfile "$1" | tar -xO --wildcards "./usr/src/*.tar.xz" '
                    '| xz -dc -T2 | tar -x -C rxe --strip-components=5 --wildcards "*/$2/*"', "unpack", debs[-1], RXE],
                   cwd=folder, check=True)
    # They refer to each other by the paths where packages would install them.
    for makefile in folder.glob("usr/src/linux-headers-*/Makefile"):
        text = makefile.read_text(encoding="utf-8")
        makefile.write_text(re.sub(r"(^|[ =])/usr/src/", rf"\1{folder}/usr/src/", text, flags=re.MULTILINE), encoding="utf-8")


def build_tree(kernel):
    """The tree to build modules of this kernel with."""
    tree = kernel.folder / f"tree-{LAYOUT}"
    if not tree.exists():
        with tempfile.TemporaryDirectory(dir=kernel.folder, prefix="fetch-") as work:
            debs = download(kernel, pathlib.Path(work))
            # Made under its final name, because its files contain it.
            tree.mkdir()
            try:
                unpack(debs, tree)
            except BaseException:
                shutil.rmtree(tree)
                raise
    return tree


def copy_sources(name, tree, folder):
    """Copies the sources of a module, ready to build."""
    if name != "rdma_rxe":
        shutil.copytree(parts()[name], folder)
        return
    shutil.copytree(tree / "rxe", folder, ignore=shutil.ignore_patterns("Makefile", "Kconfig"))
    shutil.copytree(parts()[name], folder, dirs_exist_ok=True)
    run(["patch", "-s", "-p0", "--batch", "--forward", "-i", "rxe.diff"], folder, "rxe.diff does not fit this kernel's rxe")


def build(kernel, tree, into):
    headers = tree / "usr" / "src" / f"linux-headers-{kernel.release}"
    for name in parts():
        folder = into / name
        copy_sources(name, tree, folder)
        # Without type information for BPF, because that needs a program which Debian's headers do not contain.
        run(["make", "-s", "-j2", "-C", str(headers), f"M={folder}", "CONFIG_DEBUG_INFO_BTF_MODULES=", "modules"], folder,
            f"{name} is not built")
        run(["strip", "--strip-debug", "-o", str(into / f"{name}.ko"), str(folder / f"{name}.ko")], into, f"no {name}.ko")
        shutil.rmtree(folder)


def own_modules(kernel):
    """{name: file} of the modules for this kernel. Builds them if necessary."""
    if kernel.is_fallback:
        raise Unavailable(f"{kernel.release} is all that can be had: rxe's diff is for 6.12")
    for program in (*PROGRAMS, compiler(kernel)):
        if shutil.which(program) is None:
            raise Unavailable(f"no {program} here, by which modules are built: scripts/setup test")
    folder = kernel.folder / f"own-{fingerprint()}"
    with locked(kernel.folder / "own.lock"):
        if not folder.exists():
            tree = build_tree(kernel)
            with tempfile.TemporaryDirectory(dir=kernel.folder, prefix="build-") as work:
                work = pathlib.Path(work) / "modules"
                work.mkdir()
                build(kernel, tree, work)
                for old in kernel.folder.glob("own-*"):
                    shutil.rmtree(old)
                work.rename(folder)
    return {name: folder / f"{name}.ko" for name in parts()}
