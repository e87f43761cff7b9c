package cli

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/peterbourgon/ff/v3/ffcli"
)

// Completion returns a script with which a shell, bash, zsh or fish, completes the names of
// commands and flags below c. Arguments are completed as names of files.
func Completion(c *ffcli.Command, shell string) ([]byte, error) {
	switch shell {
	case "bash":
		return bash(c), nil
	case "zsh":
		return slices.Concat([]byte("#compdef conduit\nautoload -U +X bashcompinit && bashcompinit\n"), bash(c),
			[]byte(zshFirst)), nil
	case "fish":
		return fish(c), nil
	}
	return nil, fmt.Errorf("unknown shell %s; use bash, zsh or fish", shell)
}

// zshFirst completes the line for which zsh has just loaded the script, as the function of that name. When the script
// is loaded in another way, as with eval, there is no such line.
const zshFirst = `[ "${funcstack[1]}" != _conduit ] || _bash_complete -o default -F _conduit
`

// bash returns a function that completes the words after the commands before the cursor.
func bash(c *ffcli.Command) []byte {
	var b bytes.Buffer
	b.WriteString(`# Completion of conduit for bash.
_conduit() {
    local word=${COMP_WORDS[COMP_CWORD]} at= i commands= flags=
    for ((i = 1; i < COMP_CWORD; i++)); do
        case "$at ${COMP_WORDS[i]}" in
`)
	eachName(c, func(meant string, written []string) {
		fmt.Fprintf(&b, "        \"%s\") at=\"%s\" ;;\n", strings.Join(written, `" | "`), meant)
	})
	b.WriteString("        esac\n    done\n    case \"$at\" in\n")
	walk(c, nil, func(c *ffcli.Command, words []string) {
		at := strings.Join(append([]string{""}, words...), " ")
		fmt.Fprintf(&b, "    %q) commands=%q flags=%q ;;\n", at, strings.Join(names(c), " "),
			strings.Join(flagWords(c), " "))
	})
	b.WriteString(`    esac
    case "$word" in
    -*) COMPREPLY=($(compgen -W "$flags" -- "$word")) ;;
    *) COMPREPLY=($(compgen -W "$commands" -- "$word")) ;;
    esac
}
complete -o default -F _conduit conduit
`)
	return b.Bytes()
}

// fish returns completions. Each applies when the cursor is after a certain command.
func fish(c *ffcli.Command) []byte {
	var b bytes.Buffer
	b.WriteString(`# Completion of conduit for fish.
function __conduit_at -d 'Test whether the cursor is behind this command'
    set -l at ''
    for word in (commandline -opc)
        switch "$at $word"
`)
	eachName(c, func(meant string, written []string) {
		fmt.Fprintf(&b, "            case '%s'\n                set at '%s'\n", strings.Join(written, "' '"), meant)
	})
	b.WriteString(`        end
    end
    test "$at" = "$argv[1]"
end
`)
	walk(c, nil, func(c *ffcli.Command, words []string) {
		condition := single(fmt.Sprintf(`__conduit_at "%s"`, strings.Join(append([]string{""}, words...), " ")))
		for _, below := range c.Subcommands {
			fmt.Fprintf(&b, "complete -c conduit -f -n %s -a %s -d %s\n", condition, below.Name,
				single(below.ShortHelp))
		}
		own, shared := Flags(c.FlagSet)
		for _, f := range append(own, shared...) {
			option := "-l"
			if len(f.Name) == 1 {
				option = "-s"
			}
			needs := ""
			if f.Argument != "" {
				needs = " -r"
			}
			fmt.Fprintf(&b, "complete -c conduit -n %s %s %s%s -d %s\n", condition, option, f.Name, needs,
				single(f.Text))
		}
	})
	return b.Bytes()
}

// eachName visits every command below c with its name and all its spellings. Each word has a space before it.
func eachName(c *ffcli.Command, visit func(meant string, written []string)) {
	walk(c, nil, func(at *ffcli.Command, words []string) {
		if len(words) == 0 {
			return
		}
		meant := " " + strings.Join(words, " ")
		written := []string{meant}
		if len(words) == 2 {
			for _, alias := range Aliases(Below(c, words[0]), at.Name) {
				written = append(written, " "+words[0]+" "+alias)
			}
		}
		visit(meant, written)
	})
}

func single(text string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(text) + "'"
}

func names(c *ffcli.Command) (all []string) {
	for _, below := range c.Subcommands {
		all = append(all, below.Name)
	}
	return all
}

func flagWords(c *ffcli.Command) (all []string) {
	own, shared := Flags(c.FlagSet)
	for _, f := range append(own, shared...) {
		word, _, _ := strings.Cut(f.Synopsis(), " ")
		all = append(all, word)
	}
	return append(all, "--help")
}
