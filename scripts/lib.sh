# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# Functions that the scripts share. Sourced, never run.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
started=$SECONDS
jobs=$(nproc)

if [[ -t 1 && -z ${NO_COLOR:-} ]]; then
  bold=$'\e[1m' red=$'\e[31m' cyan=$'\e[36m' green=$'\e[32m' plain=$'\e[0m'
else
  bold='' red='' cyan='' green='' plain=''
fi
readonly root started jobs bold red cyan green plain
export root jobs cyan green
# Makes ccache compare paths below the checkout as relative ones.
export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=yes

# Minutes and seconds since the script began.
elapsed() {
  local -i seconds=$((SECONDS - started))
  printf '%d:%02d' $((seconds / 60)) $((seconds % 60))
}

heading() { printf '%s== [%s] %s%s\n' "$bold" "$(elapsed)" "$*" "$plain"; }

fail() {
  printf '%s%s: %s%s\n' "$red" "$(basename "$0")" "$*" "$plain" >&2
  exit 1
}

# The files of the tree, each followed by a NUL: tracked files, and new files that git does not ignore. Without git: all except
# build/.
tree_files() {
  local path
  if git -C "$root" -c "safe.directory=$root" rev-parse --git-dir >/dev/null 2>&1; then
    git -C "$root" -c "safe.directory=$root" ls-files -z --cached --others --exclude-standard
  else
    (cd "$root" && find . -path ./build -prune -o ! -type d -print0)
  fi | while IFS= read -r -d '' path; do
    if [[ -e $root/$path || -L $root/$path ]]; then
      printf '%s\0' "$path"
    fi
  done
}

# unpack_files FOLDER: copies files of the tree into a folder. Reads their names from its standard input, as tree_files writes
# them.
unpack_files() {
  tar -C "$root" --null --verbatim-files-from --files-from - --create --file - |
    tar -C "$1" --no-same-owner --extract --file -
}

# "VERSION COMMIT" of the last release, or nothing: the first heading of CHANGELOG.md that names a commit. The heading of this
# tree's own version names none.
version_before() { sed -nE 's/^## ([0-9.]+) \(commit ([0-9a-f]+)\)$/\1 \2/p' "$root/CHANGELOG.md" | head -n 1; }

# configure PRESET [OPTION...]: the options are for cmake, which keeps those of an earlier call.
configure() {
  local preset=$1
  local cache=$root/build/$preset/CMakeCache.txt log=$root/build/$preset/configure.log
  local -a options=("${@:2}")
  # The checkout was moved, or is mounted elsewhere: CMake refuses such a cache.
  if [[ -f $cache ]] && ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$root" "$cache"; then
    options+=(--fresh)
  fi
  if command -v ccache >/dev/null; then
    options+=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
  fi
  # The output of the configuration matters only after a failure.
  mkdir -p "$(dirname "$log")" || return 1
  if ! (cd "$root" && cmake --preset "$preset" "${options[@]}") >"$log" 2>&1; then
    cat "$log"
    return 1
  fi
}

# build PRESET [TARGET...]: builds a configured preset.
build() {
  local preset=$1
  shift
  local -a targets=()
  if (($# > 0)); then
    targets=(--target "$@")
  fi
  (cd "$root" && cmake --build --preset "$preset" --parallel "$jobs" "${targets[@]}")
}
