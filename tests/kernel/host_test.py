#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tests of the harness without a guest: when no guest is possible, which kernel is chosen, which files are unpacked."""
import contextlib
import io
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import cases_conformance
import modules
import package
from initramfs import Archive

RUN = pathlib.Path(__file__).resolve().parent / "run.py"


class HostTests(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.path = self.folder / "bin"
        self.path.mkdir()
        for name in ("env", "sh", "cat", "grep", "rm", "setpriv"):
            (self.path / name).symlink_to(shutil.which(name))

    def add_program(self, name, text):
        (self.path / name).write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        (self.path / name).chmod(0o755)

    def environment(self):
        return {"PATH": str(self.path), "HBMWIRE_TEST_CACHE": str(self.folder / "cache"), "HOME": str(self.folder)}

    def run_case(self):
        """(exit status, output) of run.py with the programs in `self.path`."""
        done = subprocess.run([sys.executable, "-B", RUN, "--build", self.folder, "harness.exit_code"], text=True,
                              env=self.environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        return done.returncode, done.stdout

    def test_without_qemu_the_run_is_skipped_with_the_reason(self):
        status, shown = self.run_case()
        self.assertEqual(status, 77, shown)
        self.assertRegex(shown, r"Skipped\nno kernel guest: no qemu-system-x86_64 here")

    def test_without_apt_the_run_is_skipped_with_the_reason(self):
        self.add_program("qemu-system-x86_64", "exit 1")
        status, shown = self.run_case()
        self.assertEqual(status, 77, shown)
        self.assertRegex(shown, r"Skipped\nno kernel guest: no apt-get here")

    def test_without_an_archive_the_run_is_skipped_with_the_reason(self):
        self.add_program("qemu-system-x86_64", "exit 1")
        self.add_program("dpkg-deb", "exit 1")
        self.add_program("apt-cache", "echo linux-image-6.12.9+deb12-amd64")
        self.add_program("apt-get", 'case "$*" in *indextargets*) printf "%s\\t%s\\t%s\\t%s\\n" http://localhost/debian '
                     'bookworm main /key;; *) exit 100;; esac')
        with open("/etc/os-release", encoding="utf-8") as file:
            if "VERSION_CODENAME=bookworm" not in file.read():
                self.add_program("apt-get", "exit 100")
        status, shown = self.run_case()
        self.assertEqual(status, 77, shown)
        self.assertRegex(shown, r"Skipped\nno kernel guest: apt")

    def test_a_package_that_is_broken_is_a_failure(self):
        self.add_program("qemu-system-x86_64", "exit 1")
        self.add_program("dpkg-deb", "echo no archive")
        self.add_program("apt-cache", "echo linux-image-6.12.9+deb12-amd64")
        self.add_program("apt-get", 'case "$*" in *download*) echo x >linux-image-6.12.9+deb12-amd64_6.12.9-1_amd64.deb;; esac')
        status, shown = self.run_case()
        self.assertEqual(status, 1, shown)

    def test_the_newest_plain_image_is_taken(self):
        self.add_program("apt-cache", "printf '%s\\n' linux-image-6.12-amd64 linux-image-6.12.9+deb12-amd64 "
                     "linux-image-6.12.107+deb12-amd64 linux-image-6.12.110+deb12-amd64-dbg "
                     "linux-image-6.12.111+deb12-rt-amd64 linux-image-6.12.99-amd64")
        with mock.patch.dict(os.environ, self.environment()):
            self.assertEqual(package.Apt(self.folder).images("6.12"), [
                "linux-image-6.12.107+deb12-amd64", "linux-image-6.12.99-amd64", "linux-image-6.12.9+deb12-amd64"])

    def test_modules_come_after_their_dependencies(self):
        modules = package.Modules()
        modules.builtin = {"udmabuf"}
        modules.add("lib/modules/1/kernel/net/top-one.ko", b"\0depends=middle,low\0name=top_one\0")
        modules.add("lib/modules/1/kernel/net/middle.ko", b"\0depends=low\0")
        modules.add("lib/modules/1/kernel/net/low.ko", b"\0depends=\0")
        self.assertEqual(list(modules.ordered(("top_one", "udmabuf"), ("not_there",))), ["low", "middle", "top_one"])
        with self.assertRaises(package.Unavailable):
            modules.ordered(("not_there",), ())

    def test_cpio_reads_the_archives(self):
        cpio = shutil.which("busybox")
        self.assertIsNotNone(cpio)
        written = io.BytesIO()
        archive = Archive(written)
        archive.add("/a/b/file", b"contents\n", 0o755)
        archive.link("/a/link", "b/file")
        archive.close()
        subprocess.run([cpio, "cpio", "-idm"], input=written.getvalue(), cwd=self.folder, check=True,
                       stderr=subprocess.DEVNULL)
        self.assertEqual((self.folder / "a" / "link").read_text(encoding="utf-8"), "contents\n")
        self.assertTrue(os.access(self.folder / "a" / "b" / "file", os.X_OK))

    def kernel(self):
        """A kernel for which modules cannot be built."""
        folder = self.folder / "linux-image-6.12.9+deb12-amd64"
        folder.mkdir()
        (folder / "config").write_text('CONFIG_CC_VERSION_TEXT="x86_64-linux-gnu-gcc-14 (Debian 14.2.0-19) 14.2.0"\n',
                                       encoding="utf-8")
        return package.Kernel(folder, {"release": "6.12.9+deb12-amd64", "modules": [],
                                       "package": "linux-image-6.12.9+deb12-amd64_6.12.9-1%7edeb12u1_amd64.deb"})

    def test_modules_are_built_with_packages_of_the_kernels_own_version(self):
        self.assertEqual(modules.packages(self.kernel()), [
            "linux-headers-6.12.9+deb12-amd64=6.12.9-1~deb12u1", "linux-headers-6.12.9+deb12-common=6.12.9-1~deb12u1",
            "linux-kbuild-6.12.9+deb12=6.12.9-1~deb12u1", "linux-source-6.12=6.12.9-1~deb12u1"])

    def test_without_a_compiler_there_are_no_modules(self):
        with mock.patch.dict(os.environ, self.environment()):
            with self.assertRaisesRegex(package.Unavailable, "no make here, by which modules are built"):
                modules.own_modules(self.kernel())

    def test_modules_are_built_with_the_kernels_own_compiler(self):
        kernel = self.kernel()
        self.assertEqual(modules.compiler(kernel), "x86_64-linux-gnu-gcc-14")
        for name in modules.PROGRAMS:
            self.add_program(name, "exit 1")
        with mock.patch.dict(os.environ, self.environment()):
            with self.assertRaisesRegex(package.Unavailable, "no x86_64-linux-gnu-gcc-14 here"):
                modules.own_modules(kernel)

    def test_without_sources_there_are_no_modules(self):
        kernel = self.kernel()
        for name in (*modules.PROGRAMS, modules.compiler(kernel)):
            self.add_program(name, "exit 1")
        self.add_program("apt-get", 'case "$*" in *indextargets*) printf "%s\\t%s\\t%s\\t%s\\n" http://localhost/debian '
                     'bookworm main /key;; *) exit 100;; esac')
        with open("/etc/os-release", encoding="utf-8") as file:
            is_known = "VERSION_CODENAME=bookworm" in file.read()
        reason = "no linux-headers-6.12.9.deb12-amd64=" if is_known else "apt"
        with mock.patch.dict(os.environ, self.environment()):
            with self.assertRaisesRegex(package.Unavailable, reason):
                modules.own_modules(kernel)
        self.assertEqual(sorted(path.name for path in kernel.folder.iterdir()), ["config", "own.lock"])

    def test_another_series_has_no_modules_of_ours(self):
        kernel = self.kernel()
        kernel.is_fallback = True
        with self.assertRaisesRegex(package.Unavailable, "rxe's diff is for 6.12"):
            modules.own_modules(kernel)

    def test_modules_change_with_their_sources(self):
        shutil.copytree(modules.SOURCES, self.folder / "modules")
        with mock.patch.object(modules, "SOURCES", self.folder / "modules"):
            before = modules.fingerprint()
            (self.folder / "modules" / "gaudi" / "info.c").write_text("int changed;\n", encoding="utf-8")
            self.assertNotEqual(modules.fingerprint(), before)

    def test_the_diff_of_rxe_holds_our_lines_alone(self):
        lines = (modules.SOURCES / "rxe" / "rxe.diff").read_text(encoding="utf-8").splitlines()
        hunks = lines[lines.index("--- rxe_loc.h"):]
        self.assertEqual([line for line in hunks if not line.startswith(("+", "@@ -", "--- rxe_"))], [])

    def test_every_difference_stands_in_the_documents(self):
        document = (RUN.parents[2] / "docs" / "hardware" / "kernel.md").read_text(encoding="utf-8")
        for difference in cases_conformance.differences():
            self.assertIn(f"| {difference.name} | {difference.rxe} | {difference.why} |", document)

    def test_one_process_fetches_a_kernel_while_others_wait(self):
        lock = self.folder / "lock"
        with package.locked(lock):
            waiting = subprocess.run([sys.executable, "-B", "-c", "import sys, fcntl\nfile = open(sys.argv[1], 'w')\n"
                                      "fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)", lock],
                                     stderr=subprocess.DEVNULL, check=False)
        self.assertEqual(waiting.returncode, 1)
        with contextlib.ExitStack() as stack:
            stack.enter_context(package.locked(lock))


if __name__ == "__main__":
    unittest.main()
