package tools_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
)

// savingTool, when set, makes the test binary the tool with that name, which replaces the content of its first
// argument, a file, with the content of the second.
const savingTool = "CONDUIT_TEST_SAVING_TOOL"

// savingTools make the same system calls as the named tools, in the same order.
var savingTools = map[string]func(c *calls, dir, name string, content []byte){
	"vim": func(c *calls, dir, name string, content []byte) {
		c.write(dir+"/."+name+".swp", os.O_RDWR|os.O_CREATE|os.O_EXCL, []byte("b0VIM 9.1"))
		c.write(dir+"/4913", os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, nil)
		c.do(os.Remove(dir + "/4913"))
		c.do(os.Rename(dir+"/"+name, dir+"/"+name+"~"))
		c.write(dir+"/"+name, os.O_WRONLY|os.O_CREATE, content)
		c.do(os.Chmod(dir+"/"+name, 0o644))
		c.do(os.Remove(dir + "/" + name + "~"))
		c.do(os.Remove(dir + "/." + name + ".swp"))
	},
	"vim with backupcopy": func(c *calls, dir, name string, content []byte) {
		c.write(dir+"/"+name+"~", os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, []byte("version: \"2.2\"\n"))
		c.write(dir+"/"+name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, content)
		c.do(os.Remove(dir + "/" + name + "~"))
	},
	"emacs": func(c *calls, dir, name string, content []byte) {
		c.do(os.Symlink("me@host.4711:1700000000", dir+"/.#"+name))
		c.write(dir+"/#"+name+"#", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, content[:len(content)/2])
		c.do(os.Rename(dir+"/"+name, dir+"/"+name+"~"))
		c.write(dir+"/"+name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, content)
		c.do(os.Chmod(dir+"/"+name, 0o644))
		c.do(os.Remove(dir + "/.#" + name))
		c.do(os.Remove(dir + "/#" + name + "#"))
	},
	"VS Code": func(c *calls, dir, name string, content []byte) {
		c.write(dir+"/"+name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, content)
	},
	"sed -i": func(c *calls, dir, name string, content []byte) {
		c.write(dir+"/sedY2Xk9a", os.O_RDWR|os.O_CREATE|os.O_EXCL, content)
		c.do(os.Chmod(dir+"/sedY2Xk9a", 0o644))
		c.do(os.Rename(dir+"/sedY2Xk9a", dir+"/"+name))
	},
	"ansible": func(c *calls, dir, name string, content []byte) {
		temp := dir + "/.ansible_tmpn4p_xap" + name
		c.write(temp, os.O_RDWR|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, content)
		c.do(os.Chmod(temp, 0o644))
		c.do(os.Rename(temp, dir+"/"+name))
		c.do(os.Chown(dir+"/"+name, os.Getuid(), os.Getgid()))
	},
	"rsync": func(c *calls, dir, name string, content []byte) {
		temp, past := dir+"/."+name+".Xq1b2c", time.Now().Add(-48*time.Hour)
		c.write(temp, os.O_RDWR|os.O_CREATE|os.O_EXCL, content)
		c.do(os.Chtimes(temp, past, past))
		c.do(os.Chmod(temp, 0o644))
		c.do(os.Rename(temp, dir+"/"+name))
	},
	"rsync --inplace": func(c *calls, dir, name string, content []byte) {
		past := time.Now().Add(-48 * time.Hour)
		c.write(dir+"/"+name, os.O_RDWR, content)
		c.do(os.Truncate(dir+"/"+name, int64(len(content))))
		c.do(os.Chtimes(dir+"/"+name, past, past))
	},
	"git": func(c *calls, dir, name string, content []byte) {
		c.write(dir+"/.gitattributes", os.O_WRONLY|os.O_CREATE|os.O_EXCL, nil)
		c.do(os.Remove(dir + "/" + name))
		c.write(dir+"/"+name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, content)
	},
	"dpkg": func(c *calls, dir, name string, content []byte) {
		c.write(dir+"/"+name+".dpkg-new", os.O_WRONLY|os.O_CREATE|os.O_EXCL, content)
		c.do(os.Link(dir+"/"+name, dir+"/"+name+".dpkg-old"))
		c.do(os.Rename(dir+"/"+name+".dpkg-new", dir+"/"+name))
	},
}

// calls makes calls until one fails.
type calls struct{ err error }

func (c *calls) do(err error) { c.err = errors.Join(c.err, err) }

func (c *calls) write(path string, flags int, content []byte) {
	f, err := os.OpenFile(path, flags, 0o644)
	if err != nil {
		c.do(err)
		return
	}
	_, err = f.Write(content)
	c.do(errors.Join(err, f.Sync(), f.Close()))
}

// saveAs is the main function of a tool that saves.
func saveAs(tool string, args []string) int {
	content, err := os.ReadFile(args[1])
	c := &calls{err}
	savingTools[tool](c, filepath.Dir(args[0]), filepath.Base(args[0]), content)
	if c.err != nil {
		fmt.Fprintln(os.Stderr, c.err)
		return 1
	}
	return 0
}

// installedTools are commands that save new as pipelines/p.yaml, which contains old. Both have the same length and
// possibly the same modification time in seconds.
var installedTools = map[string]string{
	"vim": "vim -N -u NONE -i NONE -es -c '%s/rate: 1/rate: 2/' -c 'wq' pipelines/p.yaml",
	"vim, backup": "vim -N -u NONE -i NONE -es -c 'set backup backupcopy=yes' -c '%s/rate: 1/rate: 2/' -c 'wq' " +
		"pipelines/p.yaml",
	"ed": "printf '%s\\n' ',s/rate: 1/rate: 2/' w q | ed -s pipelines/p.yaml",
	"emacs": "emacs -Q --batch pipelines/p.yaml --eval '(progn (while (search-forward \"rate: 1\" nil t) " +
		"(replace-match \"rate: 2\")) (save-buffer))'",
	"sed -i":          "sed -i 's/rate: 1/rate: 2/' pipelines/p.yaml",
	"perl -i":         "perl -pi -e 's/rate: 1/rate: 2/' pipelines/p.yaml",
	"patch":           "diff -u pipelines/p.yaml new | patch -s pipelines/p.yaml",
	"cp":              "cp new pipelines/p.yaml",
	"mv":              "mv new pipelines/p.yaml",
	"install":         "install -m 644 new pipelines/p.yaml",
	"tee":             "tee pipelines/p.yaml < new > /dev/null",
	"rsync":           "rsync -t --checksum new pipelines/p.yaml",
	"rsync --inplace": "rsync -t --checksum --inplace new pipelines/p.yaml",
	"git": "git init -q work && cp pipelines/* work && export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b " +
		"GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b && " +
		"git -C work add . && git -C work commit -qm 1 && cp work/.git/index index && cp new work/p.yaml && git -C " +
		"work commit -qam 2 && cp index work/.git/index && " +
		"git --git-dir work/.git --work-tree pipelines reset -q --hard",
}

// Tools in separate processes save in their own way: one restart with the final content.
func TestToolsThatSave(t *testing.T) {
	saved := func(t *testing.T, tool *exec.Cmd, d *agenttest.Desk) {
		t.Helper()
		tool.Dir = d.Dir
		if out, err := tool.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		d.Runs("p", 2)
		d.WantStarts("p", 2)
		d.WantStarts("q", 1)
		files, err := d.Store.FileStates(t.Context())
		d.Must(err)
		if g, text := d.Declared("p").Generation, d.Problems("p.yaml"); g != 2 || text != "" || len(files) != 2 {
			t.Errorf("generation %d, problems %s, files %+v", g, text, files)
		}
	}
	at := func(t *testing.T) *agenttest.Desk {
		load.Parallel(t, load.Agent)
		d := agenttest.AtDesk(t)
		d.Must(os.WriteFile(d.Path("new"), []byte(d.Generated("p", 2)), 0o644))
		return d
	}
	for name := range savingTools {
		t.Run("calls of "+name, func(t *testing.T) {
			d := at(t)
			tool := exec.CommandContext(t.Context(), os.Args[0], d.File("p.yaml"), d.Path("new"))
			tool.Env = append(os.Environ(), savingTool+"="+name)
			saved(t, tool, d)
		})
	}
	for name, command := range installedTools {
		t.Run(name, func(t *testing.T) {
			for _, program := range []string{"sh", strings.Fields(name)[0]} {
				if _, err := exec.LookPath(strings.Trim(program, ",")); err != nil {
					t.Fatalf("it is not installed; the package of Debian is called like it, but for emacs-nox: %v", err)
				}
			}
			saved(t, exec.CommandContext(t.Context(), "sh", "-c", command), at(t))
		})
	}
}
