package lockfile

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// cargoLock is Cargo.lock, versions 1 to 4.
type cargoLock struct {
	Version  int               `toml:"version"`
	Packages []cargoPackage    `toml:"package"`
	Root     *cargoPackage     `toml:"root"`     // version 1, for a while
	Metadata map[string]string `toml:"metadata"` // version 1: the checksums
}

type cargoPackage struct {
	Name     string   `toml:"name"`
	Version  string   `toml:"version"`
	Source   string   `toml:"source"`
	Checksum string   `toml:"checksum"`
	Depends  []string `toml:"dependencies"`
}

// cratesIO are the words in a lock for the public registry: names, not places.
var cratesIO = []string{"registry+https://github.com/rust-lang/crates.io-index", "sparse+https://index.crates.io/"}

var sha256Hex = regexp.MustCompile(`^[0-9a-f]{64}$`)

func readCargo(l *ledger) error {
	var lock cargoLock
	if err := decodeTOML(l.lock.Data, &lock); err != nil {
		return err
	}
	if lock.Version > 4 {
		return fmt.Errorf("it has version %d; only 1 to 4 are known", lock.Version)
	}
	config := l.cargoConfig()
	public := false
	for i, p := range lock.Packages {
		if p.Name == "" || p.Version == "" {
			return fmt.Errorf("package %d has no name or no version", i+1)
		}
		if p.Checksum == "" {
			p.Checksum = lock.Metadata[fmt.Sprintf("checksum %s %s (%s)", p.Name, p.Version, p.Source)]
		}
		l.cargoPackage(p)
		public = public || slices.Contains(cratesIO, p.Source)
	}
	if public && !config.mirrored {
		l.imply("index.crates.io", "static.crates.io")
	}
	l.cargoInStep(lock, config)
	return nil
}

// cargoPackage counts a package. Those without a source are the project itself
// and its path dependencies; cargoInStep tells them apart.
func (l *ledger) cargoPackage(p cargoPackage) {
	if p.Source == "" {
		return
	}
	kind, place, _ := strings.Cut(p.Source, "+")
	if kind == "git" {
		base, fragment, _ := strings.Cut(place, "#")
		l.url(base)
		l.add(entry{name: p.Name, origin: git, pinned: commit.MatchString(fragment)})
		return
	}
	if !slices.Contains(cratesIO, p.Source) {
		l.url(place)
	}
	if kind == "directory" || kind == "local-registry" || kind == "path" {
		l.add(entry{name: p.Name, origin: local})
		return
	}
	if p.Checksum == "" && slices.Contains(cratesIO, p.Source) {
		l.cannotSay("%s has no checksum: cargo would write it back, and refuses with --locked", p.Name)
	}
	l.add(entry{name: p.Name, pinned: true, hashed: sha256Hex.MatchString(p.Checksum)})
}

// cargoConfig is what .cargo/config.toml says of registries.
type cargoConfig struct {
	mirrored   bool              // another source takes the place of crates.io
	registries map[string]string // name to index
}

func (l *ledger) cargoConfig() cargoConfig {
	c := cargoConfig{registries: map[string]string{}}
	for _, name := range []string{".cargo/config.toml", ".cargo/config"} {
		f, ok := l.near(name)
		raw := map[string]any{}
		if !ok || decodeTOML(trimBOM(f.Data), &raw) != nil {
			continue
		}
		for registry := range table(raw, "registries") {
			index := text(table(table(raw, "registries"), registry), "index")
			c.registries[registry] = index
			l.cargoURL(index)
		}
		sources := table(raw, "source")
		c.mirrored = text(table(sources, "crates-io"), "replace-with") != ""
		for name := range sources {
			l.cargoURL(text(table(sources, name), "registry"))
			l.cargoURL(text(table(sources, name), "git"))
		}
		break
	}
	return c
}

func (l *ledger) cargoURL(index string) {
	if !slices.Contains(cratesIO, index) && !slices.Contains(cratesIO, "registry+"+index) {
		l.url(strings.TrimPrefix(strings.TrimPrefix(index, "sparse+"), "registry+"))
	}
}

// cargoManifests reads the Cargo.toml beside the lock and those of all members
// and path dependencies at hand, by package name.
func (l *ledger) cargoManifests() (root map[string]any, all map[string]cargoManifest) {
	all = map[string]cargoManifest{}
	base := path.Dir(l.lock.Path)
	for at, f := range l.files {
		folder, ok := below(base, path.Dir(at))
		raw := map[string]any{}
		if path.Base(at) != "Cargo.toml" || decodeTOML(trimBOM(f.Data), &raw) != nil {
			continue
		}
		if ok && folder == "." {
			root = raw
		}
		if name := text(table(raw, "package"), "name"); name != "" {
			all[name] = cargoManifest{raw: raw, folder: folder}
		}
	}
	return root, all
}

type cargoManifest struct {
	raw    map[string]any
	folder string
}
