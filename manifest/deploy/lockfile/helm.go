package lockfile

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"

	"gopkg.in/yaml.v3"
)

// chartDepend is a dependency as Helm writes it, both in Chart.yaml and in the
// JSON that the lock's digest is computed from: the order of the fields counts.
type chartDepend struct {
	Name       string   `json:"name" yaml:"name"`
	Version    string   `json:"version,omitempty" yaml:"version"`
	Repository string   `json:"repository" yaml:"repository"`
	Condition  string   `json:"condition,omitempty" yaml:"condition"`
	Tags       []string `json:"tags,omitempty" yaml:"tags"`
	Enabled    bool     `json:"enabled,omitempty" yaml:"enabled"`
	Import     []any    `json:"import-values,omitempty" yaml:"import-values"`
	Alias      string   `json:"alias,omitempty" yaml:"alias"`
}

type chartLock struct {
	Depends   []*chartDepend `yaml:"dependencies"`
	Digest    string         `yaml:"digest"`
	Generated yaml.Node      `yaml:"generated"`
}

func readHelm(l *ledger) error {
	var lock chartLock
	if err := decodeYAML(l.lock.Data, &lock); err != nil {
		return err
	}
	for _, d := range lock.Depends {
		if d != nil {
			l.chartEntry(*d)
		}
	}
	l.helmInStep(lock)
	return nil
}

// chartEntry counts a dependency. A chart without a repository lies in charts/.
// A lock never holds a hash of an archive, so those from a repository have none.
func (l *ledger) chartEntry(d chartDepend) {
	if d.Repository == "" || strings.HasPrefix(d.Repository, "file://") {
		l.add(entry{name: d.Name, origin: local})
		return
	}
	l.chartHost(d.Repository)
	l.add(entry{name: d.Name, pinned: exactSemver(d.Version)})
}

func (l *ledger) chartHost(repository string) {
	if strings.HasPrefix(repository, "@") || strings.HasPrefix(repository, "alias:") {
		l.hide("a repository is given by an alias of the machine that runs helm")
		return
	}
	l.url(repository)
}

// helmInStep compares the lock's digest, as `helm dependency build` does.
func (l *ledger) helmInStep(lock chartLock) {
	f, ok := l.near("Chart.yaml")
	var chart struct {
		APIVersion string         `yaml:"apiVersion"`
		Depends    []*chartDepend `yaml:"dependencies"`
	}
	if ok && decodeYAML(trimBOM(f.Data), &chart) != nil {
		l.cannotSay("Chart.yaml cannot be read")
		return
	}
	if older, found := l.near("requirements.yaml"); found && len(chart.Depends) == 0 {
		// Helm 2 kept dependencies in a file of their own.
		ok = decodeYAML(trimBOM(older.Data), &chart) == nil
	}
	if !ok {
		l.cannotSay("Chart.yaml is not at hand")
		return
	}
	for _, d := range chart.Depends {
		if d != nil && d.Repository != "" && !strings.HasPrefix(d.Repository, "file://") {
			l.chartHost(d.Repository)
		}
	}
	l.judged = true
	digest, err := chartDigest(chart.Depends, lock.Depends)
	switch {
	case err != nil:
		l.cannotSay("Chart.yaml holds values that have no JSON form")
	case digest != lock.Digest:
		l.disagree("the digest is that of other dependencies than those of Chart.yaml")
	}
}

// chartDigest is SHA-256 over the JSON of what is required and what is locked.
func chartDigest(required, locked []*chartDepend) (string, error) {
	text, err := json.Marshal([2][]*chartDepend{required, locked})
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}
