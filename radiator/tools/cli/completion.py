"""`radiator completion`: prints a script for a shell, generated from the commands themselves.

The script knows the commands, their options and the words that these accept. It asks no broker: a shell waits at each
TAB.
"""

import argparse
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from radiator.tools.cli.command import Command

_FILES = frozenset({"FILE", "DIR", "DATA_DIR"})  # what stands for a path in the help of a command


@dataclass(slots=True)
class Option:
    """words: what may follow, or None: nothing does. Where a path may follow, has_files."""

    name: str
    help: str
    words: list[str] | None
    has_files: bool


@dataclass(slots=True)
class CompletionNode:
    """A command, or the program itself (at: no words). words: what may stand next, with help; has_files: or a path."""

    at: tuple[str, ...]
    words: dict[str, str] = field(default_factory=dict)
    options: list[Option] = field(default_factory=list)
    has_files: bool = False


def tree(parser: argparse.ArgumentParser, at: tuple[str, ...] = ()) -> Iterator[CompletionNode]:
    """Yields the program and all its commands, theirs too."""
    node = CompletionNode(at)
    commands: dict[str, argparse.ArgumentParser] = {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            commands = dict(action.choices)
            helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
            node.words |= {name: helps.get(name, "") for name in commands}
            continue
        words = [str(word) for word in action.choices or ()]
        has_files = not _FILES.isdisjoint(re.findall(r"[A-Z_]+", str(action.metavar)))
        if not action.option_strings:
            kinds = [kind for word in getattr(action, "words", ()) for kind in word.kinds]
            node.words |= dict.fromkeys([*words, *kinds], "")
            node.has_files = node.has_files or has_files
            continue
        for name in action.option_strings:
            node.options.append(Option(name, _plain(action.help), None if action.nargs == 0 else words, has_files))
    yield node
    for name, command in commands.items():
        yield from tree(command, (*at, name))


def _plain(text: str | None) -> str:
    """Returns the first clause of a help, of characters that mean nothing to a shell within quotes."""
    first = re.split(r"[;:(]", text or "")[0].strip()
    return re.sub(r"[^\w ,./-]", "", first.replace("%%", "%"))


# ---- scripts --------------------------------------------------------------------------------------------------------


def _bash(nodes: list[CompletionNode]) -> str:
    places = "|".join(f'"{" ".join(node.at)}"' for node in nodes if node.at)
    after, cases = [], []
    for node in nodes:
        at = " ".join(node.at)
        for option in node.options:
            if option.words is not None:
                does = "_radiator_files" if option.has_files else f'_radiator_words "{" ".join(option.words)}"'
                after.append(f'        "{at}:{option.name}") {does}; return ;;')
        words = " ".join([*node.words, *(option.name for option in node.options)])
        files = "; _radiator_files" if node.has_files else ""
        cases.append(f'        "{at}") _radiator_words "{words}"{files} ;;')
    return _BASH.format(places=places, after="\n".join(after), cases="\n".join(cases))


_BASH = """\
# bash completion for radiator, made by `radiator completion bash`
_radiator_words() {{
    COMPREPLY+=($(compgen -W "$1" -- "$current"))
}}
_radiator_files() {{
    compopt -o filenames 2>/dev/null
    local IFS=$'\\n'
    COMPREPLY+=($(compgen -f -- "$current"))
}}
_radiator() {{
    local current="${{COMP_WORDS[COMP_CWORD]}}" before="" at="" word next
    COMPREPLY=()
    ((COMP_CWORD > 1)) && before="${{COMP_WORDS[COMP_CWORD - 1]}}"
    for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        next="${{at:+$at }}$word"
        case "$next" in
        {places}) at="$next" ;;
        esac
    done
    case "$at:$before" in
{after}
    esac
    case "$at" in
{cases}
    esac
}}
complete -F _radiator radiator
"""


def _zsh(nodes: list[CompletionNode]) -> str:
    places = "|".join(f'"{" ".join(node.at)}"' for node in nodes if node.at)
    after, cases = [], []
    for node in nodes:
        at = " ".join(node.at)
        for option in node.options:
            if option.words is not None:
                does = "_files" if option.has_files else f"compadd -- {' '.join(option.words)}"
                after.append(f'        "{at}:{option.name}") {does}; return ;;')
        lines = [f"'{name}:{_plain(helps)}'" for name, helps in node.words.items()]
        lines += [f"'{option.name}:{option.help}'" for option in node.options]
        files = "; _files" if node.has_files else ""
        cases.append(f'        "{at}") found=({" ".join(lines)}); _describe word found{files} ;;')
    return _ZSH.format(places=places, after="\n".join(after), cases="\n".join(cases))


_ZSH = """\
#compdef radiator
# zsh completion for radiator, made by `radiator completion zsh`
_radiator() {{
    local at="" word next
    local -a found
    for word in "${{(@)words[2,CURRENT-1]}}"; do
        next="${{at:+$at }}$word"
        case "$next" in
        {places}) at="$next" ;;
        esac
    done
    case "$at:${{words[CURRENT-1]}}" in
{after}
    esac
    case "$at" in
{cases}
    esac
}}
if [[ "${{funcstack[1]}}" == _radiator ]]; then
    _radiator "$@"
else
    compdef _radiator radiator
fi
"""


def _fish(nodes: list[CompletionNode]) -> str:
    lines = []
    for node in nodes:
        here = f"-n '__radiator_at \"{' '.join(node.at)}\"'"
        for name, helps in node.words.items():
            lines.append(f"complete -c radiator {here} -a {name} -d '{_plain(helps)}'")
        if node.has_files:
            lines.append(f"complete -c radiator {here} -F")
        for option in node.options:
            name = f"-l {option.name[2:]}" if option.name.startswith("--") else f"-s {option.name[1:]}"
            follows = ""
            if option.words is not None:
                follows = " -r -F" if option.has_files else f" -x -a '{' '.join(option.words)}'"
            lines.append(f"complete -c radiator {here} {name}{follows} -d '{option.help}'")
    places = " ".join(f"'{' '.join(node.at)}'" for node in nodes if node.at)
    return _FISH.format(places=places, lines="\n".join(lines))


_FISH = """\
# fish completion for radiator, made by `radiator completion fish`
function __radiator_at
    set -l at ''
    for word in (commandline -opc)[2..-1]
        set -l next (string trim -- "$at $word")
        if contains -- $next {places}
            set at $next
        end
    end
    test "$at" = "$argv[1]"
end
complete -c radiator -f
{lines}
"""

SHELLS: dict[str, Callable[[list[CompletionNode]], str]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}


def script(shell: str, parser: argparse.ArgumentParser) -> str:
    """Returns what that shell is to read. shell: one of SHELLS."""
    return SHELLS[shell](list(tree(parser)))


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", metavar="SHELL", choices=[*SHELLS], help=", ".join(SHELLS))


def _run(arguments: argparse.Namespace) -> int:
    print(script(arguments.shell, arguments.parser()), end="")
    return 0


COMPLETION = Command(
    name="completion",
    summary="print a script that completes commands in a shell",
    description=(
        "Prints a script for bash, zsh or fish, with which TAB completes commands, options and paths. It knows the "
        "commands of this version only: print it again after an upgrade. docs/OPERATING.md says how to install and "
        "remove it."
    ),
    example=(
        "radiator completion bash > ~/.local/share/bash-completion/completions/radiator\n"
        "radiator completion fish > ~/.config/fish/completions/radiator.fish"
    ),
    add_arguments=_arguments,
    run=_run,
)
