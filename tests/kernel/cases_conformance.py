# SPDX-License-Identifier: MIT
"""The verbs conformance suite, which the emulated NIC passes, on rxe. A list in the tree names the differences."""
import dataclasses
import pathlib
import re
import tomllib

from guest import check, finish_well
from package import Unavailable

TABLE = pathlib.Path(__file__).with_name("rxe_differences.toml")
# One case fills the longest possible send queue.
MEMORY_MIB = 1024
# Cases of the suite that must run and pass. The others need XRC, a clock or the like, which rxe lacks.
LEAST_PASSED = 650


@dataclasses.dataclass(frozen=True)
class Difference:
    name: str
    rxe: str
    why: str
    cases: tuple
    ends: bool = False  # the program crashes
    sometimes: bool = False  # only in some runs


def differences():
    return [Difference(**{**row, "cases": tuple(row["cases"])}) for row in
            tomllib.loads(TABLE.read_text(encoding="utf-8"))["difference"]]


def require_listed_kernel(kernel):
    if kernel.is_fallback:
        raise Unavailable(f"the list of rxe's differences is that of 6.12, and {kernel.release} is all that can be had")


def same(lab):
    """Cases that are not on the list pass on rxe as on the emulated NIC."""
    require_listed_kernel(lab.kernel)
    known = ":".join(pattern for difference in differences() for pattern in difference.cases)
    output = finish_well(lab.start("conformance.sh", f"--gtest_filter=-{known}", "--gtest_brief=1",
                                   memory_mib=MEMORY_MIB, seconds=400))
    passed = re.search(r"\[  PASSED  \] (\d+) tests", output)
    check(passed and int(passed[1]) >= LEAST_PASSED, f"fewer than {LEAST_PASSED} cases passed", output)


def failed_cases(output):
    return set(re.findall(r"^\[  FAILED  \] (\S+?),? .*\(\d+ ms\)$", output, re.MULTILINE))


def ran_cases(output):
    return set(re.findall(r"^\[ RUN      \] (\S+)", output, re.MULTILINE))


def skipped_cases(output):
    return set(re.findall(r"^\[  SKIPPED \] (\S+?),? .*\(\d+ ms\)$", output, re.MULTILINE))


def still_there(lab):
    """Each listed difference still exists: differences that rxe has mended must leave the list."""
    require_listed_kernel(lab.kernel)
    rows = [difference for difference in differences() if not difference.ends and not difference.sometimes]
    patterns = ":".join(pattern for difference in rows for pattern in difference.cases)
    code, output = lab.run("conformance.sh", f"--gtest_filter={patterns}", memory_mib=MEMORY_MIB, seconds=500)
    check(code == 1, f"exit code {code}", output)
    mended = ran_cases(output) - skipped_cases(output) - failed_cases(output)
    check(not mended, "no differences any more:", *sorted(mended))
    for row in (difference for difference in differences() if difference.ends):
        code, output = lab.run("conformance.sh", f"--gtest_filter={':'.join(row.cases)}", memory_mib=MEMORY_MIB)
        # 128 + SIGSEGV, as shells report it.
        check(code == 139, f"{row.name}: the program no longer ends by SIGSEGV but with {code}", output)


CASES = {"conformance.same": same, "conformance.differences": still_there}
