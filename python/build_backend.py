# SPDX-License-Identifier: MIT
"""The hooks of PEP 517, by which pip makes a wheel of this tree, and the package's metadata.

CMake builds the module in build/wheel-cp3N with libhbmwire linked into it, so that the wheel
needs no installed hbmwire. Nothing is fetched: scripts/setup build installs the packages that
CMake looks for. CMake's own variables apply: CXX, CXXFLAGS, CMAKE_GENERATOR, CMAKE_PREFIX_PATH,
CMAKE_BUILD_PARALLEL_LEVEL. A wheel works with one version of Python, on the distribution that it
was made on.

usage: build_backend.py FOLDER   writes FOLDER/hbmwire-VERSION.dist-info, which CMake installs
"""
import base64
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
import zipfile
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parent.parent
COMPONENT = "hbmwire_python"
REMEDY = "scripts/setup build installs the packages that are needed"


def project() -> dict[str, Any]:
    """The table [project] of pyproject.toml, with the version of version.hpp."""
    with open(ROOT / "pyproject.toml", "rb") as file:
        table: dict[str, Any] = tomllib.load(file)["project"]
    header = (ROOT / "include/hbmwire/version.hpp").read_text(encoding="utf-8")
    parts = dict(re.findall(r"^#define HBMWIRE_VERSION_(\w+) (\d+)$", header, re.MULTILINE))
    return table | {"version": f"{parts['MAJOR']}.{parts['MINOR']}.{parts['PATCH']}"}


def tag() -> str:
    """The tag in the wheel's name: Python, ABI and platform."""
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    platform = re.sub(r"[-.]", "_", sysconfig.get_platform())
    return f"{python}-{python}{sys.abiflags}-{platform}"


def lines(*pairs: tuple[str, str]) -> bytes:
    return "".join(f"{key}: {value}\n" for key, value in pairs).encode()


def metadata(table: dict[str, Any]) -> bytes:
    return lines(("Metadata-Version", "2.1"), ("Name", table["name"]),
                 ("Version", table["version"]), ("Summary", table["description"]),
                 ("License", table["license"]["text"]),
                 ("Requires-Python", table["requires-python"]))


def information(table: dict[str, Any]) -> dict[str, bytes]:
    """The files of a wheel's .dist-info folder, except RECORD."""
    wheel = lines(("Wheel-Version", "1.0"), ("Generator", f"hbmwire ({table['version']})"),
                  ("Root-Is-Purelib", "false"), ("Tag", tag()))
    licence = (ROOT / "LICENSE").read_bytes()
    return {"METADATA": metadata(table), "WHEEL": wheel, "LICENSE": licence}


def run(*command: object) -> None:
    if subprocess.run([str(word) for word in command], check=False).returncode != 0:
        sys.exit(f"hbmwire: {command[0]} failed (see above): {REMEDY}")


def build_package(folder: pathlib.Path) -> None:
    """Lets CMake build the package and install it into a folder."""
    if shutil.which("cmake") is None:
        sys.exit(f"hbmwire: there is no cmake: {REMEDY}")
    build = ROOT / "build" / f"wheel-{tag().partition('-')[0]}"
    options = {
        "HBMWIRE_BUILD_PYTHON": "ON",
        "HBMWIRE_BUILD_TOOLS": "OFF",
        "HBMWIRE_BUILD_EMULATION": "OFF",
        "HBMWIRE_BUILD_C": "OFF",
        "HBMWIRE_BUILD_MAN": "OFF",
        "HBMWIRE_PYTHON_INSTALL_DIR": ".",
        "Python_EXECUTABLE": sys.executable,
        "BUILD_SHARED_LIBS": "OFF",
        # As the preset "release", but without debug information, which would be stripped anyway.
        "CMAKE_BUILD_TYPE": "RelWithDebInfo",
        "CMAKE_CXX_FLAGS_RELWITHDEBINFO": "-O2 -DNDEBUG",
    }
    arguments = [f"-D{key}={value}" for key, value in options.items()]
    if shutil.which("ninja") and "CMAKE_GENERATOR" not in os.environ:
        arguments += ["-G", "Ninja"]
    # A fresh cache, since an earlier run may have had another Python or compiler. Objects are kept.
    run("cmake", "--fresh", "-S", ROOT, "-B", build, *arguments)
    os.environ.setdefault("CMAKE_BUILD_PARALLEL_LEVEL", str(len(os.sched_getaffinity(0))))
    run("cmake", "--build", build, "--target", COMPONENT)
    run("cmake", "--install", build, "--component", COMPONENT, "--strip", "--prefix", folder)


def write_wheel(path: pathlib.Path, files: dict[str, bytes], record: str) -> None:
    """Writes a wheel of these files and `record`, their list. Equal files make equal wheels."""
    listed = ""
    with zipfile.ZipFile(path, "w") as wheel:

        def add(name: str, data: bytes) -> None:
            entry = zipfile.ZipInfo(name)  # its date is 1980, so that equal files make equal wheels
            entry.external_attr = 0o100644 << 16  # a regular file that all may read
            wheel.writestr(entry, data, zipfile.ZIP_DEFLATED)

        for name, data in files.items():
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            listed += f"{name},sha256={digest},{len(data)}\n"
            add(name, data)
        add(record, f"{listed}{record},,\n".encode())


def build_wheel(
    wheel_directory: str, config_settings: object = None, metadata_directory: object = None
) -> str:
    """Makes the wheel in a folder. Returns its name."""
    del config_settings, metadata_directory  # no settings exist, and the metadata would be the same
    table = project()
    name = f"{table['name']}-{table['version']}"
    files = {}
    with tempfile.TemporaryDirectory() as folder:
        build_package(pathlib.Path(folder))
        for path in sorted(pathlib.Path(folder, table["name"]).rglob("*")):
            if path.is_file():
                files[path.relative_to(folder).as_posix()] = path.read_bytes()
    files |= {f"{name}.dist-info/{file}": data for file, data in information(table).items()}
    wheel = f"{name}-{tag()}.whl"
    write_wheel(pathlib.Path(wheel_directory, wheel), files, f"{name}.dist-info/RECORD")
    return wheel


def write_information(folder: str, files: dict[str, bytes], table: dict[str, Any]) -> str:
    """Writes these files into FOLDER/NAME-VERSION.dist-info. Returns the name of that folder."""
    name = f"{table['name']}-{table['version']}.dist-info"
    place = pathlib.Path(folder, name)
    place.mkdir(parents=True, exist_ok=True)
    for file, data in files.items():
        (place / file).write_bytes(data)
    return name


def prepare_metadata_for_build_wheel(
    metadata_directory: str, config_settings: object = None
) -> str:
    """Writes the wheel's .dist-info folder without a build. Returns its name."""
    del config_settings
    table = project()
    return write_information(metadata_directory, information(table), table)


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    table = project()
    write_information(sys.argv[1], {"METADATA": metadata(table)}, table)


if __name__ == "__main__":
    main()
