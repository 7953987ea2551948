# SPDX-License-Identifier: MIT
"""A Slurm of one node, on the loopback device, in a folder of its own: munge, controller and node daemon."""
import os
import shutil
import subprocess
import time

from harness import Failure, Skipped, only_root

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sinfo", "scontrol")
# Daemons lie there, and the PATH of a user may lack it.
PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"

CONFIGURATION = """ClusterName=hbmwire
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={controller_port}
SlurmdPort={node_port}
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SchedulerType=sched/builtin
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
ReturnToService=2
NodeName=localhost NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP MaxTime=INFINITE
"""


def find(program):
    return shutil.which(program, path=PATH)


def run(environment, *command, seconds=60):
    return subprocess.run([find(command[0]), *command[1:]], env=environment, capture_output=True, text=True, timeout=seconds,
                          check=False)


class Slurm:
    """Started by the constructor; `environment` is what srun and the others need to find it."""

    def __init__(self, here, free_ports, cpus):
        only_root()
        missing = [program for program in PROGRAMS if find(program) is None]
        if missing:
            raise Skipped(f"there is no {missing[0]}: install slurm-wlm and munge")
        self.folder = here.folder / "slurm"
        for name in ("munge", "state", "spool"):
            (self.folder / name).mkdir(parents=True, mode=0o700)
        key = self.folder / "munge" / "key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        configuration = self.folder / "slurm.conf"
        controller_port, node_port = free_ports
        configuration.write_text(CONFIGURATION.format(controller_port=controller_port, node_port=node_port, folder=self.folder,
                                                      cpus=cpus))
        self.environment = {**os.environ, "PATH": PATH, "SLURM_CONF": str(configuration)}
        munge = self.folder / "munge"
        self.daemons = [
            here.run([find("munged"), "--foreground", "--force", f"--key-file={key}", f"--socket={munge}/socket",
                      f"--pid-file={munge}/pid", f"--log-file={munge}/log", f"--seed-file={munge}/seed"])]
        self._wait(lambda: (munge / "socket").exists(), "munged does not listen")
        self.daemons.append(here.run([find("slurmctld"), "-D", "-f", configuration], env=self.environment))
        self.daemons.append(here.run([find("slurmd"), "-D", "-N", "localhost", "-f", configuration], env=self.environment))
        self._wait(self._is_idle, "the node is not ready")

    def _is_idle(self):
        return run(self.environment, "sinfo", "--noheader", "--format=%t").stdout.strip() == "idle"

    def _wait(self, is_there, what, seconds=60):
        deadline = time.monotonic() + seconds
        while not is_there():
            if time.monotonic() > deadline:
                raise Failure("\n".join([what, *(f"--- {each}\n{each.text}" for each in self.daemons)]))
            time.sleep(0.1)

    def has_pmix(self):
        said = run(self.environment, "srun", "--mpi=list")
        return "pmix" in (said.stdout + said.stderr).split()

    def stop(self):
        """Ends the daemons, but only after the job: its processes end before the daemon of its node."""
        self._wait(self._is_idle, "the job does not end")
        for daemon in reversed(self.daemons):
            daemon.handle.terminate()
            daemon.finish(30)
