# SPDX-License-Identifier: MIT
# Shared by the guests' scripts. Sourced by busybox's sh; ip and rdma are Debian's programs, never busybox's applets.
hbmwire=$BUILD/bin/hbmwire
ip() { /usr/bin/ip "$@"; }

# now: prints the seconds since the kernel's start.
now() { cut -d' ' -f1 /proc/uptime; }

# fail WORD...: prints the reason, and ends the test.
fail() {
  echo "FAILED after $(now) s: $*"
  exit 1
}

# rxe_over DEVICE ADDRESS: gives an interface an address, and makes a soft-RoCE NIC "rxe0" over it.
rxe_over() {
  ip link set "$1" up || fail "$1 does not come up"
  ip addr add "$2/24" dev "$1" || fail "no address for $1"
  rdma link add rxe0 type rxe netdev "$1" || fail "no rxe over $1"
  wait_until 10 has_gid "$2" || fail "rxe0 has no GID for $2"
}

# Whether rxe0 has the GID of an IPv4 address, which appears some time after the address.
has_gid() {
  # The GID of the address 10.9.0.1 ends with ffff:0a09:0001.
  hexadecimal=$(printf '%02x%02x:%02x%02x' $(echo "$1" | tr . ' '))
  grep -q "ffff:$hexadecimal\$" /sys/class/infiniband/rxe0/ports/1/gids/* 2>/dev/null
}

# wait_until SECONDS COMMAND...: waits until the command succeeds; fails after that time.
wait_until() {
  deadline=$(($(cut -d. -f1 /proc/uptime) + $1))
  shift
  until "$@"; do
    [ "$(cut -d. -f1 /proc/uptime)" -lt "$deadline" ] || return 1
    sleep 0.1
  done
}

# A single NIC: a dummy interface, over which rxe reaches itself.
rxe_alone() {
  ip link add alone0 type dummy || fail "no dummy interface"
  rxe_over alone0 10.1.0.1
}

# start FILE COMMAND...: runs it in the background, with its output in FILE, which is emptied before this returns; `server` is
# its process id.
start() {
  words=$1
  shift
  : >"$words"
  "$@" >>"$words" 2>&1 &
  server=$!
}

# listens SECONDS FILE [WHAT]: waits until a server, whose output goes to FILE, waits for its client; fails after that time.
listens() {
  wait_until "$1" grep -q 'Waiting for client' "$2" || { cat "$2"; fail "${3:-the server} does not listen"; }
}

# rping_well CODE FILE ROUNDS: whether one side of rping, with this exit code and output, has compared so many rounds. At its
# end rping may still read from the event channel that its other thread has closed. It then prints a complaint and returns an
# error after a good run.
rping_well() {
  cat "$2"
  [ "$(grep -c '^\(server \)\?ping data: ' "$2")" = "$3" ] && ! grep -q mismatch "$2" || return 1
  [ "$1" = 0 ] || grep -q '^rdma_get_cm_event: Bad file descriptor$' "$2"
}

# serve_measurement TEST: starts the server of hbmwire perf in the background, at measure_port; `server` is its process id.
measure_port=7200
serve_measurement() {
  measure_port=$((measure_port + 1))
  start /tmp/server $hbmwire perf "$1" -p $measure_port --bind 127.0.0.1 -d rxe0
  listens 40 /tmp/server "the server of perf $1"
}

# measure TEST OPTION...: runs both sides of hbmwire perf, which verifies the bytes. Prints the client's output.
measure() {
  what=$*
  test=$1
  shift
  serve_measurement "$test"
  $hbmwire perf "$test" 127.0.0.1 -p $measure_port -d rxe0 -n 40 "$@" >/tmp/client 2>&1
  code=$?
  echo "PERF $what"
  cat /tmp/client
  [ $code = 0 ] || { cat /tmp/server; fail "$what: the client gave $code"; }
  wait $server || { cat /tmp/server; fail "$what: the server gave $?"; }
  grep -q ' verified$' /tmp/client || fail "$what: nothing was verified"
}
