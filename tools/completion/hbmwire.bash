# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Completion of hbmwire in bash. Commands, options and values are read from the help that the program on the command line
# prints, so they are those of the version that is installed.

# Runs the program that is on the command line.
_hbmwire_run() {
  local program=${COMP_WORDS[0]//[\"\'\\]/}
  if [[ $program == \~/* ]]; then
    program=~/${program#\~/}
  fi
  command "$program" "$@" </dev/null 2>/dev/null
}

# Prints the names of hints.
_hbmwire_hints() {
  _hbmwire_run doctor explain | sed -n 's/^  \([a-z0-9_]*\) .*/\1/p'
}

# Completes a value. The help names it FILE, DIR, HOST or HINT, or lists its choices: "a|b",
# "a|b[,...]", "[emuN=]a|b", "emuN=a|b".
_hbmwire_value() {
  local kind=$1 text=$2 place=''
  case $kind in
    *'|'*)
      if [[ $kind == *=* && $text == *=* ]]; then
        place=${text%%=*}=
      elif [[ $kind == [^[]*=* ]]; then
        return
      fi
      kind=${kind##*=}
      kind=${kind#]}
      kind=${kind%%\[*}
      # Completes hosts even if a command may be given in their place.
      kind=" ${kind//|/ } "
      [[ $kind != *' HOST '* ]] || kind=${kind/ HOST / $(compgen -A hostname) }
      mapfile -t COMPREPLY < <(compgen -P "$place" -W "$kind" -- "${text#"$place"}")
      ;;
    FILE) compopt -o default ;;
    DIR) compopt -o dirnames ;;
    HOST) mapfile -t COMPREPLY < <(compgen -A hostname -- "$text") ;;
    HINT) mapfile -t COMPREPLY < <(compgen -W "$(_hbmwire_hints)" -- "$text") ;;
  esac
}

# Completes the command after `emulate --`, of which COMP_WORDS[$1] is the first word, and its
# arguments.
_hbmwire_inner() {
  if declare -F _comp_command_offset >/dev/null; then
    _comp_command_offset "$1"
  elif declare -F _command_offset >/dev/null; then
    _command_offset "$1"
  elif ((COMP_CWORD > $1)) && [[ ${COMP_WORDS[$1]##*/} == hbmwire ]]; then
    COMP_WORDS=("${COMP_WORDS[@]:$1}")
    ((COMP_CWORD -= $1))
    _hbmwire hbmwire "$2"
  elif ((COMP_CWORD > $1)) || [[ $2 == */* ]]; then
    compopt -o default
  else
    mapfile -t COMPREPLY < <(compgen -c -- "$2")
  fi
}

_hbmwire() {
  local IFS=$' \t\n' i word joined=no words=()
  COMPREPLY=()
  # Readline splits words at = and : (COMP_WORDBREAKS); this joins them again.
  for ((i = 0; i <= COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    if ((i > 1 && i < COMP_CWORD)) && [[ ${words[1]} == emulate && $word == -- ]]; then
      _hbmwire_inner $((i + 1)) "$2"
      return
    fi
    if [[ $joined == yes || $word =~ ^[=:]+$ ]] && ((i > 1)); then
      words[-1]+=$word
    else
      words+=("$word")
    fi
    [[ $word =~ ^[=:]+$ ]] && joined=yes || joined=no
  done
  # Readline replaces only the last part of the word before the cursor, $2. `before` is the part
  # that stays.
  local before=${words[-1]}
  [[ $joined == yes ]] || before=${before%"$word"}
  local cur=$before${2#[\"\']}

  # The options with their values, and the positional arguments.
  local -A value=()
  local positionals=() line section='' command=()
  ((${#words[@]} > 2)) && command=("${words[1]}")
  # A subcommand of a command, with its own help.
  ((${#words[@]} > 3)) && [[ ${words[1]} == doctor && ${words[2]} == explain ]] && command+=("${words[2]}")
  while IFS= read -r line; do
    case $line in
      *:) section=$line ;;
      '') [[ $section != Options: ]] || break ;;
    esac
    if [[ ${line/, -/,-} =~ ^\ {2,6}(-[^ ]+)(\ ([^ ]+))? ]]; then
      word=${BASH_REMATCH[3]:-}
      # "[TIME]": an optional value follows "=".
      [[ $word != \[* || $word == \[*=\]* ]] || word=''
      for i in ${BASH_REMATCH[1]//,/ }; do
        value[$i]=$word
      done
    elif [[ $section == commands: && $line =~ ^\ \ ([a-z]+)\  ]]; then
      positionals[0]+="${BASH_REMATCH[1]}|"
    elif [[ $section == Positionals: && $line =~ ^\ \ ([A-Z]+)(\ ([^ ]+))? ]]; then
      word=${BASH_REMATCH[3]:-}
      [[ $word == *'|'* ]] || word=${BASH_REMATCH[1]}
      if [[ ${positionals[0]:-} == *'|' ]]; then
        positionals[0]+=$word  # or one of the commands
      else
        positionals+=("$word")
      fi
    fi
  done < <(_hbmwire_run "${command[@]}" --help)

  local pending='' position=0
  for ((i = 1 + ${#command[@]}; i < ${#words[@]} - 1; i++)); do
    word=${words[i]}
    if [[ -n $pending ]]; then
      pending=''
    elif [[ $word != -?* ]]; then
      ((++position))
    elif [[ $word != *=* ]]; then
      pending=${value[$word]:-}
    fi
  done
  if [[ -n $pending ]]; then
    _hbmwire_value "$pending" "$cur"
  elif [[ $cur == -*=* ]]; then
    word=${cur%%=*}
    _hbmwire_value "${value[$word]:-}" "${cur#*=}"
    COMPREPLY=("${COMPREPLY[@]/#/"$word="}")
  elif [[ $cur != -* && -n ${positionals[position]:-} ]]; then
    _hbmwire_value "${positionals[position]}" "$cur"
  elif [[ $cur == -* || -z $cur ]]; then
    mapfile -t COMPREPLY < <(compgen -W "${!value[*]}" -- "${cur:---}")
  fi
  COMPREPLY=("${COMPREPLY[@]#"$before"}")
}

complete -F _hbmwire hbmwire
