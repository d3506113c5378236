// Package arch holds the project's import table: which package may import which
// others of the project. Its test reads every file's imports with go/parser (not
// through go list, whose cached answer could keep a stale pass).
package arch

import "strings"

// everywhere may be imported by every package.
var everywhere = []string{"internal/errext", "internal/redact", "internal/progress"}

// table says what each package may import of the project, besides everywhere
// and itself. A name that ends in /... covers the package and all below it; the
// longest matching row decides. A package without a row may import nothing.
var table = map[string][]string{
	"internal/store":        {"manifest/digest"},
	"internal/store/...":    {"internal/store", "internal/store/storetest", "manifest/digest"},
	"internal/store/s3":     {"internal/store", "internal/store/s3/s3test", "internal/store/storetest", "manifest/digest"},
	"internal/store/hf":     {"internal/store", "internal/store/dir", "internal/store/hf/hftest", "manifest/digest"},
	"internal/faultproxy":   {},
	"internal/parity":       {"verify", "manifest", "manifest/digest", "internal/store", "internal/store/s3", "internal/store/s3/s3test", "internal/faultproxy"},
	"scripts/faultproxy":    {"internal/faultproxy"},
	"internal/strictyaml":   {},
	"internal/safetensors":  {},
	"internal/tokenizer":    {},
	"internal/chattemplate": {},
	"internal/openai":       {"internal/pipenet"},
	"internal/pipenet":      {},
	"internal/standin":      {"internal/safetensors", "internal/tokenizer", "internal/chattemplate", "internal/openai", "internal/pipenet"},
	"internal/service":      {"manifest/region", "internal/strictyaml"},
	"internal/registry":     {"manifest", "manifest/digest", "manifest/deploy"},
	"internal/arch":         {},
	"internal/discover":     {"internal/safetensors", "internal/store", "internal/store/hf", "manifest/engine", "manifest/deploy"},
	"internal/demo":         {},
	"internal/unasked":      {},
	"manifest/digest":       {},
	"manifest/region":       {},
	"manifest/model":        readers,
	"manifest/engine":       readers,
	"manifest/deploy/...":   append([]string{"manifest/deploy/lockfile"}, readers...),
	"manifest/probes":       readers,
	"manifest":              {"manifest/model", "manifest/engine", "manifest/deploy", "manifest/deploy/lockfile", "manifest/probes", "manifest/digest", "manifest/region", "internal/store", "internal/store/dir", "internal/store/mem"},
	"manifest/rules":        {"manifest", "manifest/model", "manifest/engine", "manifest/deploy", "manifest/deploy/lockfile", "manifest/probes", "manifest/digest", "internal/store"},
	"manifest/diff":         {"manifest", "manifest/model", "manifest/engine", "manifest/deploy", "manifest/digest"},
	"manifest/internal/...": {"manifest", "internal/store"},
	"manifest/release":      {"manifest", "manifest/digest", "internal/store"},
	"manifest/oms":          {"manifest/digest"},
	"manifest/export":       {"manifest", "manifest/model", "manifest/digest", "manifest/oms"},
	"verify":                {"manifest", "manifest/digest", "manifest/release", "internal/store"},
	"verify/report":         {"manifest", "verify", "verify/batch", "internal/store", "internal/report"},
	"verify/batch":          {"verify", "internal/store", "manifest/digest"},
	"verify/metrics":        {"verify", "internal/store"},
	"replicate":             {"verify", "manifest", "manifest/digest", "manifest/region", "manifest/release", "internal/store"},
	"replicate/advise":      {"verify/batch"},
	"playbooks":             {"internal/strictyaml"},
	"drill":                 {"playbooks", "manifest/digest"},
	"drill/bootlog":         {"drill"},
	"drill/probe":           {"manifest/probes", "manifest/digest", "manifest/region", "internal/openai"},
	"drill/traffic":         {"manifest/probes", "manifest/region", "internal/openai"},
	"drill/reach":           {},
	"drill/step":            {"drill", "drill/forecast", "drill/bootlog", "drill/probe", "drill/reach", "drill/traffic", "drill/approval", "drill/ledger", "playbooks", "manifest/...", "verify", "replicate", "internal/store", "internal/strictyaml", "internal/openai"},
	"drill/selftest":        {"drill", "drill/ledger", "drill/probe", "drill/reach", "drill/step", "drill/traffic", "drill/router/reference", "drill/routing/serve", "playbooks", "manifest/...", "verify", "replicate", "internal/standin", "internal/pipenet", "internal/openai", "internal/store", "internal/store/dir", "internal/store/mem"},
	"drill/gitops":          {},
	"drill/launch/...":      {"drill", "drill/gitops", "internal/openai"},
	"drill/router/...":      {"drill", "internal/openai"},
	"drill/tui":             {"drill", "drill/forecast", "internal/openai", "internal/unasked"},
	"drill/forecast":        {"drill"},
	"drill/ledger":          {"drill", "internal/store", "manifest/digest"},
	"drill/approval":        {"drill", "drill/ledger", "manifest/oms"},
	"drill/report":          {"drill", "drill/forecast", "internal/store", "internal/report"},
	"drill/evidence":        {"drill", "drill/approval", "drill/ledger", "drill/report", "internal/store"},
	"drill/routing":         {"manifest/region"},
	"drill/routing/...":     {"drill/routing", "manifest/region", "internal/openai"},
	"cmd/drkit":             {"..."},
}

// readers may be imported by manifest and import only leaf packages.
var readers = []string{"manifest/digest", "internal/store", "internal/strictyaml", "internal/safetensors", "internal/tokenizer", "internal/chattemplate"}

// testOnly lists what tests may import beyond the table: fakes and fixtures that
// no shipped code reaches.
var testOnly = []string{"internal/store", "internal/store/dir", "internal/store/mem", "internal/store/storetest", "internal/store/s3/s3test", "internal/faultproxy", "internal/pipenet", "internal/standin", "manifest/internal/boottruth", "playbooks"}

// allowed reports whether a package may import another of the project; both are
// paths below the module.
func allowed(from, to string, test bool) bool {
	if from == to || matchesAny(to, everywhere) || (test && matchesAny(to, testOnly)) {
		return true
	}
	return matchesAny(to, row(from))
}

func row(from string) []string {
	best, key := -1, ""
	for k := range table {
		if n := len(strings.TrimSuffix(k, "...")); matches(from, k) && n > best {
			best, key = n, k
		}
	}
	return table[key]
}

func matchesAny(path string, patterns []string) bool {
	for _, p := range patterns {
		if matches(path, p) {
			return true
		}
	}
	return false
}

func matches(path, pattern string) bool {
	root, below := strings.CutSuffix(pattern, "...")
	if !below {
		return path == pattern
	}
	root = strings.TrimSuffix(root, "/")
	return root == "" || path == root || strings.HasPrefix(path, root+"/")
}
