package manual

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/conduit-agent/conduit/cmd/conduit/cli"
)

// Completion returns a script with which a shell, bash, zsh or fish, completes the names of
// commands and flags below c. Arguments are completed as names of files.
func Completion(c *ffcli.Command, shell string) ([]byte, error) {
	switch shell {
	case "bash":
		return bash(c), nil
	case "zsh":
		return append([]byte("#compdef conduit\nautoload -U +X bashcompinit && bashcompinit\n"), bash(c)...), nil
	case "fish":
		return fish(c), nil
	}
	return nil, fmt.Errorf("no such shell: %s; there are bash, zsh and fish", shell)
}

// bash returns a function that finds what may follow the commands that stand before the cursor.
func bash(c *ffcli.Command) []byte {
	var b bytes.Buffer
	b.WriteString(`# Completion of conduit for bash.
_conduit() {
    local word=${COMP_WORDS[COMP_CWORD]} at= i commands= flags=
    for ((i = 1; i < COMP_CWORD; i++)); do
        case "$at ${COMP_WORDS[i]}" in
`)
	walk(c, nil, func(at *ffcli.Command, words []string) {
		if len(words) == 0 {
			return
		}
		meant := strings.Join(words, " ")
		fmt.Fprintf(&b, "        \" %s\"", meant)
		if len(words) == 2 {
			for _, alias := range cli.Aliases(cli.Below(c, words[0]), at.Name) {
				fmt.Fprintf(&b, " | \" %s %s\"", words[0], alias)
			}
		}
		fmt.Fprintf(&b, ") at=\" %s\" ;;\n", meant)
	})
	b.WriteString("        esac\n    done\n    case \"$at\" in\n")
	walk(c, nil, func(c *ffcli.Command, words []string) {
		at := strings.Join(append([]string{""}, words...), " ")
		fmt.Fprintf(&b, "    %q) commands=%q flags=%q ;;\n", at, strings.Join(names(c), " "), strings.Join(flagWords(c), " "))
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

func fish(c *ffcli.Command) []byte {
	var b bytes.Buffer
	b.WriteString("# Completion of conduit for fish.\n")
	walk(c, nil, func(c *ffcli.Command, words []string) {
		condition := "__fish_use_subcommand"
		if len(words) > 0 {
			condition = "__fish_seen_subcommand_from " + strings.Join(words, "; and __fish_seen_subcommand_from ")
		}
		if names := names(c); len(names) > 0 && len(words) > 0 {
			condition += "; and not __fish_seen_subcommand_from " + strings.Join(names, " ")
		}
		for _, below := range c.Subcommands {
			fmt.Fprintf(&b, "complete -c conduit -f -n %s -a %s -d %s\n", single(condition), below.Name, single(below.ShortHelp))
		}
		own, shared := cli.Flags(c.FlagSet)
		for _, f := range append(own, shared...) {
			option := "-l"
			if len(f.Name) == 1 {
				option = "-s"
			}
			needs := ""
			if f.Argument != "" {
				needs = " -r"
			}
			fmt.Fprintf(&b, "complete -c conduit -n %s %s %s%s -d %s\n", single(condition), option, f.Name, needs, single(f.Text))
		}
	})
	return b.Bytes()
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
	own, shared := cli.Flags(c.FlagSet)
	for _, f := range append(own, shared...) {
		word, _, _ := strings.Cut(f.Synopsis(), " ")
		all = append(all, word)
	}
	return append(all, "--help")
}
