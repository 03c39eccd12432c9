"""`slotkeeper completion SHELL`: the script with which a shell completes Slotkeeper command lines.

Each script passes on the words as typed and reads one completion per line, `word<TAB>help`. If a line has no word, the
shell completes file names. No output is evaluated as code.
"""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer

from slotkeeper.console.cli import output
from slotkeeper.console.cli.context import COMPLETING

app = typer.Typer(help="Let a shell complete commands, options and names.", add_completion=False)


class Shell(Enum):
    """The shells with a completion script."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


_BASH = """\
_slotkeeper_complete() {
    local offer last="${COMP_WORDS[COMP_CWORD]}"
    COMPREPLY=()
    [[ $last == = ]] && last=
    while IFS= read -r offer; do
        if [[ $offer == $'\\t'* ]]; then
            compopt -o filenames 2>/dev/null
            mapfile -t COMPREPLY < <(compgen -f -- "$last")
        else
            COMPREPLY+=("${offer%%$'\\t'*}")
        fi
    done < <(ASKING=bash "$1" "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _slotkeeper_complete slotkeeper
"""
_ZSH = """\
#compdef slotkeeper
_slotkeeper() {
    local line
    local -a offered
    for line in "${(@f)$(ASKING=zsh ${(Q)words[1]} "${(@Q)words[2,CURRENT]}" 2>/dev/null)}"; do
        if [[ $line == $'\\t'* ]]; then
            _files
        elif [[ -n $line ]]; then
            offered+=("${${line%%$'\\t'*}//:/\\\\:}:${line#*$'\\t'}")
        fi
    done
    (( $#offered )) && _describe slotkeeper offered
}
if [[ $funcstack[1] == _slotkeeper ]]; then
    _slotkeeper "$@"
else
    (( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }
    compdef _slotkeeper slotkeeper
fi
"""
_FISH = """\
function __slotkeeper_complete
    set -l words (commandline -opc)
    set -l last (commandline -ct)
    set -l program $words[1]
    for line in (ASKING=fish $program $words[2..] "$last" 2>/dev/null)
        if string match -q -- \\t'*' $line
            __fish_complete_path $last
        else
            echo $line
        end
    end
end
complete -c slotkeeper -f -a '(__slotkeeper_complete)'
"""
SCRIPTS = {Shell.BASH: _BASH, Shell.ZSH: _ZSH, Shell.FISH: _FISH}


@app.command()
def completion(shell: Annotated[Shell, typer.Argument(metavar="|".join(each.value for each in Shell))]) -> None:
    """Print the completion script of a shell: bash, zsh: eval "$(slotkeeper completion bash)"; fish: ... | source."""
    output.block(SCRIPTS[shell].replace("ASKING", COMPLETING))
