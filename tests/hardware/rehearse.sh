#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: rehearse.sh TREE BUILD_FOLDER quick|full cuda|rocm|gaudi
# Runs the steps of scripts/hardware from an unpacked bundle, with nothing else but bash and coreutils (and sed, for a
# rehearsal). Every step succeeds on emulated devices. The reports are complete, and contain nothing about this host. On a
# machine without the accelerator every step fails separately, and the report still exists.
set -euo pipefail

tree=$1 build=$2 effort=$3 memory=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
  printf 'FAILED: %s\n' "$*" >&2
  exit 1
}

"$tree/scripts/bundle" --build "$build" "$work/bundle" >/dev/null
mkdir "$work/bin" "$work/tmp"
mapfile -t programs < <(dpkg -L coreutils 2>/dev/null | grep -E '/s?bin/[a-z0-9]+$')
((${#programs[@]} > 50)) || { echo "skipped: dpkg does not tell which programs are of coreutils" && exit 77; }
for program in "${programs[@]}" "$(command -v bash)" "$(command -v sh)" "$(command -v sed)"; do
  ln -sf "$program" "$work/bin/"
done
bare() { (cd "$work" && env -i PATH="$work/bin" HOME=/nonexistent TMPDIR="$work/tmp" "$work/bundle/hardware" "$@"); }

# check FOLDER: compares the two reports, and checks that they contain nothing forbidden.
check() {
  python3 - "$1" "$effort" <<'END'
import json
import pathlib
import re
import socket
import sys
folder, effort = pathlib.Path(sys.argv[1]), sys.argv[2]
text, raw = (folder / "report.txt").read_text(), (folder / "report.json").read_text()
report = json.loads(raw)
steps = {step["name"]: step for step in report["steps"]}
wanted = "doctor memory exports transfer engines staging ipc_memory ipc ways speed perf_put perf_get".split()
assert sorted(steps) == sorted(wanted), steps.keys()
for step in report["steps"]:
    assert step["result"] in ("passed", "failed", "timed out", "not run", "not in this version"), step
    assert re.search(rf"^{step['name']} +{step['result']}", text, re.MULTILINE), f"report.txt lacks {step}"
    # A step that was not run has a reason.
    assert (step["result"] == "not run") <= bool(step["reason"]), f"not run, and no reason: {step}"
assert report["failed_steps"] == sum(step["result"] in ("failed", "timed out") for step in report["steps"])
assert re.fullmatch(r"[0-9a-f]{12}(-dirty)?|v?[0-9.].*|unknown", report["commit"]), report["commit"]
for secret in (socket.gethostname(), "127.0.0.1:", "fe80", "::ffff", "/tmp/"):
    # A short host name may occur by chance.
    assert len(secret) < 4 or secret not in text + raw, f"the report has {secret}"
print(text)
END
}

out=$work/report
# Other tests may load this machine.
options=(--minutes 15)
[[ $effort == full ]] || options+=(--quick)
if ! bare --rehearse "$memory" "${options[@]}" "$out" >"$work/said"; then
  grep -rh -A 8 'Failure$' "$out/logs" || true
  fail "$memory: $(cat "$work/said" "$out/report.txt")"
fi
check "$out"
grep -q 'EMULATED (a rehearsal)' "$out/report.txt" || fail "the report does not say that it is of emulated devices"
grep -qE '^[a-z_]+ +(failed|timed out) ' "$out/report.txt" && fail "a step failed, and the exit status was 0"
grep -q '"put_nic_gb_per_s": [0-9.]' "$out/report.json" || fail "no speed of puts"
grep -q '"copy_out_gb_per_s": [0-9.]' "$out/report.json" || fail "no speed of the engine"
[[ -z $(ls -A "$work/tmp") ]] || fail "left in TMPDIR: $(ls -A "$work/tmp")"
if [[ $effort == full ]]; then
  grep -q not_reached "$out/report.json" && fail "there was no time for all cases"
  exit 0
fi

# A machine without the accelerator.
[[ ! -e /proc/driver/nvidia/version ]] || exit 0
status=0
bare --memory cuda --quick "$work/none" >"$work/said" 2>&1 || status=$?
[[ $status == 1 ]] || fail "without a GPU it exits with $status: $(<"$work/said")"
check "$work/none" >/dev/null
for step in memory exports engines staging ipc_memory ipc speed ways; do
  grep -q "^$step  *failed" "$work/none/report.txt" || fail "without a GPU the step $step did not fail by itself"
done
grep -rq 'command not found' "$work/none" && fail "it needs more than bash and coreutils: $(grep -rh 'command not found' "$work/none")"

# Wrong command lines.
for wrong in '--rehearse nothing' '--step nothing' '--minutes 0' --frobnicate --memory; do
  status=0
  # shellcheck disable=SC2086  # split into words
  bare $wrong >"$work/said" 2>&1 || status=$?
  [[ $status == 2 && $(<"$work/said") == hardware:* ]] || fail "$wrong: status $status, $(<"$work/said")"
done
# Only some steps.
bare --rehearse "$memory" --quick --step memory --step engines "$work/two" >"$work/said" || fail "two steps: $(<"$work/said")"
[[ $(grep -c '"name"' "$work/two/report.json") == 2 ]] || fail "--step runs others, too"
echo "all well"
