# SPDX-License-Identifier: MIT
# Shared by scripts of the second tier: rxe that imports dma-bufs, and the virtual Gaudi. Sourced.
export LD_PRELOAD=$BUILD/tests/libreg_dmabuf_mr.so

# counter INDEX NAME: a counter of card INDEX.
counter() { sed -n "s/^$2 //p" "/sys/class/accel/accel$1/device/counters"; }

# Whether all exports were released, and all mappings unmapped.
is_even() {
  for card in /sys/class/accel/accel[0-9]*; do
    index=${card##*accel}
    for pair in 'exports releases' 'attaches detaches' 'maps unmaps'; do
      set -- $pair
      [ "$(counter "$index" "$1")" = "$(counter "$index" "$2")" ] || return 1
    done
  done
}

# used INDEX: the card had exports and mappings, and none of them is left.
used() {
  wait_until 20 is_even || { cat /sys/class/accel/accel*/device/counters; fail "something of a card is left"; }
  [ "$(counter "$1" maps)" -gt 0 ] || fail "no NIC has mapped card $1"
}

# serve NAME PORT OPTION...: starts a server in the background, with its output in /tmp/NAME; `server` is its process id.
serve() {
  name=$1 port=$2
  shift 2
  start "/tmp/$name" $hbmwire server -p "$port" -d rxe0 -m gaudi "$@"
  listens 40 "/tmp/$name"
}
