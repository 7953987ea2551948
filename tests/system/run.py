#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""System tests of hbmwire's tools. `run.py --list` names the cases, `run.py --program PATH CASE...` runs some."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))

import case_runner  # noqa: E402
import cases_exchange  # noqa: E402
import cases_explain  # noqa: E402
import cases_failures  # noqa: E402
import cases_file  # noqa: E402
import cases_info  # noqa: E402
import cases_large  # noqa: E402
import cases_limits  # noqa: E402
import cases_room  # noqa: E402
import cases_stat  # noqa: E402
import cases_tools  # noqa: E402

CASES = {**cases_exchange.CASES, **cases_explain.CASES, **cases_failures.CASES, **cases_file.CASES, **cases_info.CASES,
         **cases_large.CASES, **cases_limits.CASES, **cases_room.CASES, **cases_stat.CASES, **cases_tools.CASES}

if __name__ == "__main__":
    sys.exit(case_runner.main(__doc__, CASES))
