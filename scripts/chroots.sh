# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# Debian releases in folders made by debootstrap, for scripts/distributions and scripts/package. Sourced after lib.sh.

export chroots_folder=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/hbmwire/distributions

# Something is missing on this machine: ctest treats this exit code as "skipped", and scripts/count_tests.py reads the reason.
unavailable() {
  printf '%s: Skipped\n%s\n' "$(basename "$0")" "$*" >&2
  exit 77
}

# The archives from which apt gets packages, one "URI RELEASE" per line, independent of the format of apt's files.
sources() {
  # shellcheck disable=SC2016  # apt replaces these names
  apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' | sed -n 's/ main$//p' | sort -u
}

# Sets archive, security and http_proxy, the sources of packages. Exits with 77 if no distribution can be made.
find_archives() {
  local program list proxy
  if ((EUID != 0)); then
    unavailable "only root can make and enter another distribution: run it as root, or with sudo"
  fi
  for program in debootstrap apt-get git unshare setpriv; do
    if ! command -v "$program" >/dev/null; then
      unavailable "no other distribution: $program is not installed: scripts/setup full"
    fi
  done

  list=$(sources)
  if [[ -z $list ]]; then
    # apt lists only archives that it has fetched.
    apt-get -qq update || unavailable "no other distribution: apt-get update failed, so there is no package archive"
    list=$(sources)
  fi
  local releases='(bullseye|bookworm|trixie|forky|sid|oldoldstable|oldstable|stable|testing|unstable)'
  archive=$(sed -nE "s/ $releases\$//p" <<<"$list" | head -n 1)
  security=$(sed -nE "s/ $releases-security\$//p" <<<"$list" | head -n 1)
  if [[ -z $archive ]]; then
    unavailable "no other distribution: no apt source of this machine is a Debian archive; add one to /etc/apt/sources.list.d"
  fi
  proxy=$(apt-config shell value Acquire::http::Proxy | sed -n "s/^value='\(.*\)'\$/\1/p")
  if [[ -n $proxy && $proxy != DIRECT ]]; then
    export http_proxy=$proxy
  fi
}

# apart COMMAND...: runs it in its own mount and process namespaces, so that nothing stays mounted or running, however this
# script ends.
apart() {
  setpriv --pdeathsig KILL unshare --mount --propagation private --pid --fork --kill-child --mount-proc -- "$@"
}

# Makes $1 the new / and hides the machine's own /. It is a mount point rather than a chroot, because the kernel allows no user
# namespaces in a chroot. Run by `apart`.
# shellcheck disable=SC2016  # for the shell that runs it
readonly enter='
  set -euo pipefail
  cd "$1"
  shift
  mount --bind . .
  cd "$PWD"
  mount -t proc proc proc
  mount --rbind /sys sys
  mount --rbind /dev dev
  mount -t tmpfs -o mode=1777 tmpfs dev/shm
  pivot_root . mnt
  cd /
  umount --lazy mnt
  exec "$@"'

# inside FOLDER COMMAND...: runs it as root of the distribution in FOLDER, in the copy of the tree.
inside() {
  local folder=$1
  shift
  # A shell's background commands ignore Ctrl-C, but tests send it.
  apart env --ignore-environment --default-signal PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root \
    LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive ${http_proxy:+"http_proxy=$http_proxy"} ${NO_COLOR:+"NO_COLOR=$NO_COLOR"} \
    bash -c "$enter" inside "$folder" env --chdir=/hbmwire "$@" </dev/null
}

# Configures the sources of packages like on this machine. Proxy, mirror or name server may have changed since the last run.
configure_packages() {
  local name=$1 folder=$2 file
  local key=/usr/share/keyrings/debian-archive-keyring.gpg
  if [[ ! -e $folder$key && -e $key ]]; then
    cp "$key" "$folder$key"
  fi
  {
    echo "deb [signed-by=$key] $archive $name main"
    if [[ $name != sid ]]; then
      echo "deb [signed-by=$key] $archive $name-updates main"
      if [[ -n $security ]]; then
        echo "deb [signed-by=$key] $security $name-security main"
      fi
    fi
  } >"$folder/etc/apt/sources.list"
  # The settings for fetching packages (proxies, time-outs), without the machine's hooks.
  apt-config dump Acquire | grep -v '^Acquire::\(IndexTargets\|Changelogs\)' >"$folder/etc/apt/apt.conf.d/90machine"
  # Packages must not start services there.
  printf '#!/bin/sh\nexit 101\n' >"$folder/usr/sbin/policy-rc.d"
  chmod +x "$folder/usr/sbin/policy-rc.d"
  for file in /etc/resolv.conf /etc/hosts; do
    if [[ -e $file ]]; then
      rm -f "$folder$file"
      cp --dereference "$file" "$folder$file"
    fi
  done
}

# make_distribution NAME FOLDER FRESH: FRESH is yes or no.
make_distribution() {
  local name=$1 folder=$2 fresh=$3
  local -a options=(--variant=minbase)
  if [[ $archive == https:* ]]; then
    options+=(--include=ca-certificates)
  fi
  if [[ $fresh == yes || ! -e $folder.made ]]; then
    rm -f "$folder.made"
    rm -rf --one-file-system "$folder"
    mkdir -p "$folder"
    if ! apart debootstrap "${options[@]}" "$name" "$folder" "$archive" >"$folder.log" 2>&1; then
      tail -n 20 "$folder.log" >&2
      return 1
    fi
    touch "$folder.made"
  fi
  configure_packages "$name" "$folder"
  mkdir -p "$folder/hbmwire"
  inside "$folder" apt-get -qq update
}

# Copies the files of the tree. build/ and the times of files are kept, so that ninja builds only changed files.
copy_tree() {
  local folder=$1/hbmwire
  find "$folder" -mindepth 1 -maxdepth 1 ! -name build -exec rm -rf {} +
  tree_files | unpack_files "$folder"
}

# Only one run at a time uses a folder.
lock_chroots() {
  mkdir -p "$1"
  exec 9>"$1/lock"
  flock --nonblock 9 || fail "another run uses $1: wait for it, or choose another folder with --dir"
}
