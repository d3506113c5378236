package lockfile

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
)

// sums are the hashes of go.sum by "path version" and "path version/go.mod".
type sums map[string]bool

// h1 matches a hash of go.sum: SHA-256 in base64.
var h1 = regexp.MustCompile(`^h1:[A-Za-z0-9+/]{43}=$`)

func readGomod(l *ledger) error {
	have, err := readSums(l.lock.Data)
	if err != nil {
		return err
	}
	l.imply("proxy.golang.org", "sum.golang.org")
	f, ok := l.near("go.mod")
	if !ok {
		l.cannotSay("go.mod, which names the entries, is not at hand")
		l.note("go.sum alone does not tell what is built")
		return nil
	}
	mod, err := modfile.Parse("go.mod", trimBOM(f.Data), nil)
	if err != nil {
		l.cannotSay("go.mod cannot be read")
		return nil
	}
	l.judged = true
	l.goRequires(mod, have)
	l.goLeftover(mod, have)
	return nil
}

func readSums(data []byte) (sums, error) {
	have := sums{}
	number := 0
	for line := range strings.Lines(string(data)) {
		number++
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		if len(f) != 3 {
			return nil, atLine(number, "line %d has %d fields instead of 3", number, len(f))
		}
		if strings.HasPrefix(f[2], "h1:") && !h1.MatchString(f[2]) {
			return nil, atLine(number, "line %d: the hash of %s is incomplete", number, clip(f[0], 80))
		}
		if h1.MatchString(f[2]) {
			have[f[0]+" "+f[1]] = true
		}
	}
	return have, nil
}

// goRequires counts the require lines after replace.
func (l *ledger) goRequires(mod *modfile.File, have sums) {
	for _, r := range mod.Require {
		m := replaced(mod, r.Mod)
		if m.Version == "" {
			l.add(entry{name: r.Mod.Path, origin: local})
			continue
		}
		host, _, _ := strings.Cut(m.Path, "/")
		l.facts.Hosts = append(l.facts.Hosts, strings.ToLower(host))
		zip, gomod := have[m.Path+" "+m.Version], have[m.Path+" "+m.Version+"/go.mod"]
		l.add(entry{name: m.Path, pinned: true, hashed: zip && gomod})
		if !zip || !gomod {
			l.disagree("go.sum lacks %s %s", m.Path, m.Version)
		}
	}
}

// replaced is what a replace directive puts in a module's place; a path has no
// version.
func replaced(mod *modfile.File, m module.Version) module.Version {
	for _, r := range mod.Replace {
		if r.Old.Path == m.Path && (r.Old.Version == "" || r.Old.Version == m.Version) {
			m = r.New
			if r.Old.Version != "" {
				break // the narrower one wins
			}
		}
	}
	return m
}

// helpers are modules that dependencies use in their tests: `go mod tidy` keeps
// their hashes though go.mod does not require them. Found in 45 public modules.
var helpers = map[string]bool{
	"gopkg.in/check.v1": true, "github.com/google/go-cmp": true, "github.com/stretchr/testify": true, "github.com/stretchr/objx": true,
	"github.com/davecgh/go-spew": true, "github.com/pmezard/go-difflib": true, "gopkg.in/yaml.v3": true, "gopkg.in/yaml.v2": true,
	"go.uber.org/goleak": true, "github.com/kr/text": true, "github.com/kr/pretty": true, "github.com/kr/pty": true, "github.com/creack/pty": true,
	"github.com/niemeyer/pretty": true, "github.com/rogpeppe/go-internal": true, "gotest.tools/v3": true, "gotest.tools": true,
	"pgregory.net/rapid": true, "github.com/go-test/deep": true, "github.com/onsi/ginkgo": true, "github.com/onsi/ginkgo/v2": true,
	"github.com/onsi/gomega": true, "golang.org/x/exp": true, "golang.org/x/tools": true, "github.com/frankban/quicktest": true,
	"github.com/matryer/is": true, "github.com/google/pprof": true, "github.com/go-task/slim-sprig": true, "github.com/go-task/slim-sprig/v3": true,
	"golang.org/x/xerrors": true, "golang.org/x/mod": true, "golang.org/x/sync": true, "github.com/google/gofuzz": true,
}

// goLeftover tells modules whose archive has a hash though nothing requires them.
// The graph of all go.mod files, which alone decides, is not at hand, so this is
// no sign that a build would fail.
func (l *ledger) goLeftover(mod *modfile.File, have sums) {
	needed := map[string]bool{}
	for _, r := range mod.Require {
		needed[replaced(mod, r.Mod).Path] = true
	}
	for _, key := range slices.Sorted(maps.Keys(have)) {
		name, version, _ := strings.Cut(key, " ")
		if !strings.HasSuffix(version, "/go.mod") && !needed[name] && !helpers[name] {
			l.leftover = append(l.leftover, name)
		}
	}
	if len(l.leftover) > 0 && len(l.stale) == 0 {
		l.note("%s", fmt.Sprintf("nothing requires %s; `go mod tidy` would tell whether a dependency's tests do, builds are not affected", some(sortedSet(l.leftover), ", ")))
	}
}
