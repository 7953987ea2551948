#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tests/support/exposition.py finds no fault in good texts, and the right ones in broken texts."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))

from exposition import Exposition  # noqa: E402

GOOD = '''# HELP a_bytes_total Bytes.
# TYPE a_bytes_total counter
a_bytes_total{x="1",y="a\\"b\\\\c\\nd"} 12
a_bytes_total{x="2",y=""} 0
# HELP a_things Things.
# TYPE a_things gauge
a_things 3
# HELP a_time_seconds Times.
# TYPE a_time_seconds histogram
a_time_seconds_bucket{le="0.1"} 1
a_time_seconds_bucket{le="1e+01"} 3
a_time_seconds_bucket{le="+Inf"} 3
a_time_seconds_sum 4.5
a_time_seconds_count 3
# HELP a_none_total None.
# TYPE a_none_total counter
'''
BROKEN = (
    ("# HELP a_bytes_total Bytes.\n", ""),
    ("# TYPE a_bytes_total counter\n", ""),
    ("# TYPE a_things gauge\n", "# TYPE a_things counter\n"),
    ("# TYPE a_things gauge\n", "# TYPE a_things number\n"),
    ("a_things 3\n", "a_things three\n"),
    ("a_things 3\n", "a_things 3 4 5\n"),
    ("a_things 3\n", "a_things 3\na_things 3\n"),
    ("a_things 3\n", "a_things 3\na_bytes_total 3\n"),
    ("a_things", "a_things_ms"),
    ("a_things", "a_things_count"),
    ("a_things", "a_gauge_of_things"),
    ("a_things", "a-things"),
    ("a_bytes_total", "a_bytes_moved_total"),
    ("a_bytes_total", "a_bytes_"),
    ('x="2"', 'x="1",x="2"'),
    ('x="2",y=""', 'x="1",y="a\\"b\\\\c\\nd"'),
    ('x="2"', '__x="2"'),
    ('x="2"', '9x="2"'),
    ('x="2"', 'x="\\2"'),
    ('x="2"', 'le="2"'),
    ('y=""}', 'y="}'),
    ("} 12\n", "} -12\n"),
    ('le="1e+01"} 3', 'le="1e+01"} 0'),
    ('le="1e+01"', 'le="0.01"'),
    ('le="+Inf"} 3', 'le="+Inf"} 4'),
    ('a_time_seconds_bucket{le="+Inf"} 3\n', ""),
    ("a_time_seconds_sum 4.5\n", ""),
    ("# HELP a_none_total None.\n", "# HELP a_none_total None.\n# HELP a_none_total None.\n"),
    ("# HELP a_none_total None.\n", "\n"),
    ("a_none_total counter\n", "a_none_total counter"),
)


def main():
    faults = Exposition(GOOD).faults
    wrong = [f"a good text has faults: {faults}"] if faults else []
    if Exposition(GOOD).families["a_bytes_total"].value(x="1", y='a"b\\c\nd') != 12:
        wrong.append("a value with escapes is read otherwise")
    for old, new in BROKEN:
        if old not in GOOD:
            wrong.append(f"the good text has no {old!r}")
        elif not Exposition(GOOD.replace(old, new)).faults:
            wrong.append(f"no fault is found with {new!r} in the place of {old!r}")
    print("\n".join(wrong) or "passed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
