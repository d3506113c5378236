package diff

import (
	"fmt"
	"regexp"

	"drkit/manifest"
)

var (
	lockedTOML = regexp.MustCompile(`(?m)^name = "([^"]+)"\r?\nversion = "([^"]+)"`)
	lockedPin  = regexp.MustCompile(`(?m)^([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^\]]*\])?==([^\s;\\]+)`)
)

// locked lists the versions of packages that a lockfile states in one of the two
// forms that most have; other formats give none.
func locked(data []byte) map[string]any {
	out := map[string]any{}
	for _, form := range []*regexp.Regexp{lockedTOML, lockedPin} {
		for _, m := range form.FindAllStringSubmatch(string(data), -1) {
			if old, ok := out[m[1]].(string); ok && old != m[2] {
				m[2] = old + ", " + m[2]
			}
			out[m[1]] = m[2]
		}
	}
	return out
}

// packages compares the versions that two lockfiles state. Hashes and indexes
// may differ besides, so the file keeps its own severity.
func (c *comparison) packages(p pair, from, to []byte) {
	var all []Difference
	walkMaps(locked(from), locked(to), nil, func(at []string, v, w any) {
		all = append(all, Difference{Severity: manifest.Silent, Kind: KindPackage, Part: p.to.Part, Region: p.to.Region, Path: p.to.Path, Field: at[0],
			From: plain(v), To: plain(w), Message: fmt.Sprintf("package %s %s → %s", at[0], show(v), show(w))})
	})
	if n := len(all) - maxFields; n > 0 {
		all = append(all[:maxFields], Difference{Severity: manifest.Silent, Kind: KindPackage, Part: p.to.Part, Region: p.to.Region, Path: p.to.Path,
			Message: fmt.Sprintf("%s more differ", count(n, "package"))})
	}
	c.result.Differences = append(c.result.Differences, all...)
}
