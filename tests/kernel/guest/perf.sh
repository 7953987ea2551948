# SPDX-License-Identifier: MIT
# hbmwire perf over rxe, with host memory. Each argument is a test with its options.
. /lib.sh
rxe_alone

# Whether a process has ended, even if wait was not called.
is_over() { case $(cut -d" " -f3 "/proc/$1/stat" 2>/dev/null) in Z | "") true ;; *) false ;; esac; }

for line; do
  measure $line
done

# A peer is killed during the test: the other side soon reports that.
for test in write_bw put_bw tag_lat; do
  serve_measurement $test
  $hbmwire perf $test 127.0.0.1 -p $measure_port -d rxe0 -D 60 >/tmp/client 2>&1 &
  client=$!
  sleep 3
  kill -0 $client || { cat /tmp/client; fail "$test: the client has ended already"; }
  kill -9 $server
  wait $server
  wait_until 10 is_over $client || fail "$test: the client has not ended 10 s after its server's death"
  wait $client
  [ $? = 1 ] || { cat /tmp/client; fail "$test: another exit code than 1 without a server"; }
  [ "$(grep -c '^hbmwire perf: ' /tmp/client)" = 1 ] || { cat /tmp/client; fail "$test: not one sentence"; }
  grep '^hbmwire perf: ' /tmp/client
done
