# SPDX-License-Identifier: MIT
"""Interactive shells on a terminal, in which a line is typed and completed."""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time

PROMPT = "<ready> "
# Ctrl-E and Ctrl-U delete the whole line, Ctrl-T calls show(), Ctrl-B and Ctrl-F move the cursor.
CLEAR, SHOW, TAB, LEFT, RIGHT = "\x05\x15", "\x14", "\t", "\x02", "\x06"
SECONDS = 20
# Wide and high, so that nothing is wrapped or cut, and the shell does not ask before it prints a list.
ROWS, COLUMNS = 1000, 600
# SHOW prints the current line between characters that no program prints. Until the next prompt, the terminal may still be in
# the mode for programs, in which it interprets CLEAR itself.
SHOWN = re.compile("\x1e([^\x1e]*)\x1e[^\x1e]*" + PROMPT)
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|\a")

BASH = r"""
PS1='<ready> '
bind 'set show-all-if-ambiguous on' 'set page-completions off' 'set completion-query-items 0'
bind 'set completion-display-width 0' 'set bell-style none' 'set enable-bracketed-paste off'
show() { printf '\n\036%s\036\n' "$READLINE_LINE"; }
bind -x '"\C-t": show'
"""
ZSH = r"""
PS1='<ready> '
unsetopt always_last_prompt auto_menu beep list_ambiguous prompt_cr prompt_sp zle_bracketed_paste
unset zle_bracketed_paste
LISTMAX=10000
bindkey -e
autoload -U compinit
compinit -u -D
show() { zle -I; printf '\n\036%s\036\n' $BUFFER }
zle -N show
bindkey '^T' show
"""


class Completed:
    """The result: the line, and the output below it."""

    def __init__(self, line, printed):
        self.line = line
        self.printed = printed

    @property
    def candidates(self):
        """The listed words, without their descriptions and the slashes of folders."""
        words = [word for text in self.printed for word in re.split(r" +-- ", text)[0].split()]
        return sorted(word.rstrip("/") for word in words)


class Shell:
    """`set_up` runs first. The arguments are the command line, the environment and the folder of the shell."""

    def __init__(self, command, set_up, environment, folder):
        self.child, self.terminal = pty.fork()
        if self.child == 0:
            os.chdir(folder)
            os.execvpe(command[0], command, environment)
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        file = os.path.join(environment["HOME"], "set_up")
        with open(file, "w", encoding="utf-8") as out:
            out.write(set_up)
        self._send(f". {file}\n")
        self._read_until(re.compile(re.escape(PROMPT)))
        self.complete("", tabs=0)  # returns when the shell reads lines

    def close(self):
        os.close(self.terminal)
        os.kill(self.child, signal.SIGKILL)
        os.waitpid(self.child, 0)

    def complete(self, typed, tabs=1):
        """Types the line, with the cursor at "^" if given, and then TAB."""
        line, _, rest = typed.partition("^")
        self._send(CLEAR + SHOW)
        self._read_until(SHOWN)
        self._send(line + rest + LEFT * len(rest) + TAB * tabs + SHOW)
        printed, shown = self._read_until(SHOWN)
        segments = re.split(r"[\r\n]+", ESCAPES.sub("", printed))
        # The first segment is the typed line. After a list the shell repeats it with its prompt.
        below = [s.strip() for s in segments if s.strip() and not s.startswith(PROMPT)]
        return Completed(shown[1], below[0 if segments[0].startswith(PROMPT) else 1:])

    def _send(self, text):
        os.write(self.terminal, text.encode())

    def _read_until(self, pattern):
        text, end = "", time.monotonic() + SECONDS
        while True:
            found = pattern.search(text)
            if found:
                return text[:found.start()], found
            ready, _, _ = select.select([self.terminal], [], [], max(0, end - time.monotonic()))
            if not ready:
                raise TimeoutError(f"the shell printed nothing more for {SECONDS} s after {text!r}")
            text += os.read(self.terminal, 65536).decode("utf-8", "replace")
