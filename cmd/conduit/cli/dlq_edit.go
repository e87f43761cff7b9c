package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/peterbourgon/ff/v3/ffcli"
)

func editCommand(p *Program) *ffcli.Command {
	var file string
	return p.Remote("edit", RemoteCommand{
		Usage: "conduit dlq edit PIPELINE ID",
		Short: "Edit the record of a dead letter before a replay.",
		Long: `Opens the record in the editor that VISUAL or EDITOR names, or reads it from a file. Raw data and the
position are text, or "base64:…" for bytes that are not text.

Examples:
  conduit dlq edit orders 17
  conduit dlq edit orders 17 --file record.json`,
		Arguments: 2,
		Flags: func(fs *flag.FlagSet) {
			fs.StringVar(&file, "file", "",
				"read the record from `FILE`, or from standard input if -, instead of starting an editor")
		},
		Exec: func(ctx context.Context, r *Remote, args []string) error {
			edited, err := editedRecord(ctx, r, args, file)
			if err != nil {
				return err
			}
			if edited == nil {
				return r.Say(struct{}{}, "nothing was changed")
			}
			l, err := r.EditDeadLetter(ctx, args[0], args[1], edited)
			if err != nil && file == "" {
				return keepEdited(edited, args, r.Explain(err))
			}
			if err != nil {
				return err
			}
			return r.Say(l, "dead letter %d of %s was changed", l.ID, l.PipelineID)
		},
	})
}

// editedRecord returns the record in the file or from the editor, nil when it is unchanged.
func editedRecord(ctx context.Context, r *Remote, args []string, file string) (json.RawMessage, error) {
	var text []byte
	var err error
	switch file {
	case "":
		l, err := r.DeadLetter(ctx, args[0], args[1])
		if err != nil {
			return nil, err
		}
		if text, err = edit(ctx, r.Program, l.Record); err != nil || text == nil {
			return nil, err
		}
	case "-":
		text, err = io.ReadAll(os.Stdin)
	default:
		text, err = os.ReadFile(file)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the record: %w", err)
	}
	if err := checkJSON(text); err != nil {
		if file == "" {
			return nil, keepEdited(text, args, err)
		}
		return nil, err
	}
	return text, nil
}

// checkJSON returns an error with line and column if text is not JSON.
func checkJSON(text []byte) error {
	var wrong *json.SyntaxError
	if err := json.Unmarshal(text, new(json.RawMessage)); !errors.As(err, &wrong) {
		return err
	}
	before := text[:max(0, min(int(wrong.Offset), len(text))-1)]
	line := bytes.Count(before, []byte{'\n'}) + 1
	column := len(before) - bytes.LastIndexByte(before, '\n')
	return Invalidf("the record is not JSON: line %d, column %d: %v", line, column, wrong)
}

// keepEdited saves a text that was refused because of err, so that the work in the editor is not lost.
func keepEdited(text []byte, args []string, err error) error {
	f, failed := os.CreateTemp("", "conduit-dlq-*.json") // with mode 0600
	if failed == nil {
		_, failed = f.Write(text)
		failed = errors.Join(failed, f.Close())
	}
	if failed != nil {
		return Invalidf("%v\nThe edited text is lost: cannot save it: %v", err, failed)
	}
	return Invalidf("%v\nThe edited text is in %s: correct it, and run 'conduit dlq edit %s %s --file %[2]s'.", err,
		f.Name(), args[0], args[1])
}

// edit lets a person edit a record, and returns nil when it is unchanged.
func edit(ctx context.Context, p *Program, record json.RawMessage) ([]byte, error) {
	var before bytes.Buffer
	if err := json.Indent(&before, record, "", "  "); err != nil {
		return nil, fmt.Errorf("cannot print the record: %w", err)
	}
	before.WriteByte('\n')
	dir, err := os.MkdirTemp("", "conduit-dlq-")
	if err != nil {
		return nil, fmt.Errorf("cannot create a directory to edit the record in: %w", err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "record.json")
	if err := os.WriteFile(path, before.Bytes(), 0o600); err != nil {
		return nil, fmt.Errorf("cannot write the record for the editor: %w", err)
	}
	editor := cmp.Or(p.Getenv("VISUAL"), p.Getenv("EDITOR"), "vi")
	c := exec.CommandContext(ctx, "sh", "-c", editor+` "$1"`, "sh", path) // the setting may include arguments
	c.Stdin = os.Stdin
	c.Stdout, c.Stderr = p.Streams()
	if err := c.Run(); err != nil {
		return nil, errors.Join(Invalidf("the editor %q failed; set VISUAL or EDITOR, or use --file", editor), err)
	}
	after, err := os.ReadFile(path)
	if err != nil || bytes.Equal(after, before.Bytes()) {
		return nil, err
	}
	return after, nil
}
