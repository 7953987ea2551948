# SPDX-License-Identifier: MIT
# The memory limit of a version 2 cgroup above the process, as in a container. Host memory above the limit is refused by name.
# If the kernel kills a process for it below `hbmwire emulate`, the message explains that.
. /lib.sh
rxe_alone
mkdir -p /sys/fs/cgroup
mount -t cgroup2 none /sys/fs/cgroup || fail "no cgroup2"
echo +memory >/sys/fs/cgroup/cgroup.subtree_control || fail "no memory controller"
mkdir -p /sys/fs/cgroup/pod/container || fail "no cgroup"
echo 100M >/sys/fs/cgroup/pod/memory.max || fail "no limit"

# inside COMMAND...: runs it in the cgroup; its output goes to /tmp/said.
inside() {
  sh -c 'echo $$ >/sys/fs/cgroup/pod/container/cgroup.procs && exec "$@"' sh "$@" >/tmp/said 2>&1
}

inside $hbmwire client 127.0.0.1 -p 1 -d rxe0 -m host -s 100M
code=$?
cat /tmp/said
[ $code = 1 ] || fail "the client above the limit gave $code"
grep -q 'memory limit of the container or its cgroup' /tmp/said || fail "the limit is not named"

# 1 MiB fits below the limit. The client's only error is that there is no server.
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
