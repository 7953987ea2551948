# SPDX-License-Identifier: MIT
# The memory limit of a cgroup of version 2: of one above the process, as a container's is. Host memory above it is refused by
# name; a process that the kernel kills for it below `hbmwire emulate` is explained.
. /lib.sh
rxe_alone
mkdir -p /sys/fs/cgroup
mount -t cgroup2 none /sys/fs/cgroup || fail "no cgroup2"
echo +memory >/sys/fs/cgroup/cgroup.subtree_control || fail "no memory controller"
mkdir -p /sys/fs/cgroup/pod/container || fail "no cgroup"
echo 100M >/sys/fs/cgroup/pod/memory.max || fail "no limit"

# inside COMMAND...: in the cgroup; what it says goes to /tmp/said.
inside() {
  sh -c 'echo $$ >/sys/fs/cgroup/pod/container/cgroup.procs && exec "$@"' sh "$@" >/tmp/said 2>&1
}

inside $hbmwire client 127.0.0.1 -p 1 -d rxe0 -m host -s 100M
code=$?
cat /tmp/said
[ $code = 1 ] || fail "the client above the limit gave $code"
grep -q 'memory limit of the container or its cgroup' /tmp/said || fail "the limit is not named"

# It fits, and what is wrong is that there is no server.
inside $hbmwire client 127.0.0.1 -p 1 -d rxe0 -m host -s 1M
code=$?
cat /tmp/said
[ $code = 1 ] || fail "the client below the limit gave $code"
grep -q 'ECONNREFUSED' /tmp/said || fail "the client below the limit does not come to its connection"

inside $hbmwire emulate --quiet -- tail /dev/zero
code=$?
cat /tmp/said
[ $code = 125 ] || fail "emulate gave $code"
grep -q 'memory.max' /tmp/said || fail "emulate does not say which limit its command was killed by"
exit 0
