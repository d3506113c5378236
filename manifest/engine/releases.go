package engine

import (
	"bytes"
	"compress/gzip"
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// The engines whose options are known.
const (
	VLLM   = "vllm"
	SGLang = "sglang"
)

// Version is the release of vLLM that is taken when none is named: the one whose
// catalogue was dumped from the running parser (CPU build, Python 3.11).
const Version = "0.32.0"

// sglangVersion is the same for SGLang: the newest release that is known.
const sglangVersion = "0.5.23"

// catalogues holds one file a release: every option with its type, default,
// choices and spellings, the fields of the JSON options' classes, how the
// release reads configuration, and the variables that it reads. vLLM 0.32.0 was
// dumped from its running parser, the others were read from their sources and
// compared with their parsers. vllm-history.json says between which releases an
// option existed and what replaced it.
//
//go:embed catalogues/*.json.gz
var catalogues embed.FS

// Release is what a release of an engine knows beside its options.
type Release struct {
	Engine, Version        string
	Quantization           []string            // methods that it has
	QuantizationDeprecated []string            // of those, the ones announced to go
	LoadFormats            []string            //
	Architectures          map[string][]string // by section of the registry; "" when it has none
	PreviouslySupported    map[string]string   // architecture → last release that had it
	OutOfTree              []string            // architectures that need a plugin
}

// Releases lists the releases of an engine whose options are known, oldest first.
func Releases(engine string) []string { return slices.Clone(released()[engine]) }

// ReleaseOf is what is known of a release, or of the one that stands in for it;
// the note says which, and is empty for an exact match.
func ReleaseOf(engine, version string) (Release, string) {
	t, note := tableOf(engine, version)
	return t.release, note
}

var released = sync.OnceValue(func() map[string][]string {
	out := map[string][]string{}
	entries, err := catalogues.ReadDir("catalogues")
	if err != nil {
		panic(fmt.Sprintf("listing the embedded option catalogues: %v", err))
	}
	for _, e := range entries {
		engine, version, _ := strings.Cut(strings.TrimSuffix(e.Name(), ".json.gz"), "-")
		if version != "history" {
			out[engine] = append(out[engine], version)
		}
	}
	for _, versions := range out {
		slices.SortFunc(versions, func(a, b string) int { return slices.Compare(numbers(a), numbers(b)) })
	}
	return out
})

// versionText is a version as people and image tags write it: v0.32.0, 0.11.2+cu129,
// 0.5.9-cu126, 0.4.6.post5.
var versionText = regexp.MustCompile(`^v?(\d+(?:\.\d+)+)(?:\.post(\d+))?(?:[-_+.a-z].*)?$`)

// numbers is a version as numbers to compare; nil when it is none.
func numbers(version string) []int {
	m := versionText.FindStringSubmatch(version)
	if m == nil {
		return nil
	}
	var out []int
	for part := range strings.SplitSeq(m[1], ".") {
		n, err := strconv.Atoi(part)
		if err != nil {
			return nil
		}
		out = append(out, n)
	}
	if m[2] != "" {
		n, _ := strconv.Atoi(m[2])
		out = append(out, n)
	}
	return out
}

// plainVersion reports whether a version names a release and nothing more, such
// as a release candidate or a build of one's own.
func plainVersion(version string) bool {
	m := versionText.FindStringSubmatch(version)
	return m != nil && !regexp.MustCompile(`(rc|dev|alpha|beta|nightly)`).MatchString(version)
}

// VersionOf is the engine's version that an image tag names, or "".
func VersionOf(tag string) string {
	m := versionText.FindStringSubmatch(tag)
	if m == nil || strings.Count(m[1], ".") < 2 {
		return ""
	}
	if m[2] != "" {
		return m[1] + ".post" + m[2]
	}
	return m[1]
}

// tableOf chooses the catalogue for a version: the release itself, else the
// nearest older one, else the oldest. The note is empty for the release itself.
func tableOf(engine, version string) (*table, string) {
	known := released()[engine]
	title := titles[engine]
	if version == "" {
		return catalogueOf(engine, defaultVersion(engine)), ""
	}
	want := numbers(version)
	if want == nil {
		v := defaultVersion(engine)
		return catalogueOf(engine, v), fmt.Sprintf("%q names no release of %s; the options of %s are used", version, title, v)
	}
	if i := slices.IndexFunc(known, func(v string) bool { return slices.Equal(numbers(v), want) }); i >= 0 && plainVersion(version) {
		return catalogueOf(engine, known[i]), ""
	}
	older := known[0]
	for _, v := range known {
		if slices.Compare(numbers(v), want) <= 0 {
			older = v
		}
	}
	if slices.Compare(numbers(older), want) > 0 {
		return catalogueOf(engine, older), fmt.Sprintf("the options of %s %s are not recorded; those of %s, the oldest known, are used", title, version, older)
	}
	if t := between(engine, older, VersionOf(version)); t != nil {
		return t, fmt.Sprintf("which options %s %s has is recorded, but not their defaults and values; those of %s, the nearest older release, are used", title, version, older)
	}
	return catalogueOf(engine, older), fmt.Sprintf("the options of %s %s are not recorded; those of %s, the nearest older release, are used", title, version, older)
}

var titles = map[string]string{VLLM: "vLLM", SGLang: "SGLang"}

func defaultVersion(engine string) string {
	if engine == SGLang {
		return sglangVersion
	}
	return Version
}

var loaded sync.Map // engine-version → func() *table

// catalogueOf decodes a catalogue once. The file is part of the program, so damage in
// it is a fault of the build and stops the program.
func catalogueOf(engine, version string) *table {
	read := func() *table {
		t, err := newTable(unpacked(engine + "-" + version))
		if err != nil {
			panic(fmt.Sprintf("reading the embedded option catalogue of %s %s: %v", engine, version, err))
		}
		if engine == VLLM && version != Version {
			t.borrow(catalogueOf(VLLM, Version))
		}
		return t
	}
	once, _ := loaded.LoadOrStore(engine+"-"+version, sync.OnceValue(read))
	return once.(func() *table)()
}

func unpacked(name string) []byte {
	packed, err := catalogues.ReadFile("catalogues/" + name + ".json.gz")
	if err != nil {
		panic(fmt.Sprintf("reading the embedded option catalogues: %v", err))
	}
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		panic(fmt.Sprintf("unpacking the embedded %s: %v", name, err))
	}
	data, err := io.ReadAll(r)
	if err != nil {
		panic(fmt.Sprintf("unpacking the embedded %s: %v", name, err))
	}
	return data
}

func newTable(data []byte) (*table, error) {
	var file struct {
		Engine, Version     string
		Options             json.RawMessage              `json:"options"`
		Classes             map[string]map[string]*field `json:"json_classes"`
		Behaviour           map[string]any
		Env                 []string
		Quantization        []string
		Deprecated          []string          `json:"quantization_deprecated"`
		LoadFormats         []string          `json:"load_formats"`
		Architectures       json.RawMessage   // by section, or SGLang's plain list
		PreviouslySupported map[string]string `json:"previously_supported"`
		OutOfTree           []string          `json:"out_of_tree"`
	}
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, err
	}
	t := &table{engine: file.Engine, version: file.Version, order: numbers(file.Version), byFlag: map[string]*option{}, byDest: map[string]*option{},
		classes: file.Classes, behaviour: file.Behaviour, env: file.Env,
		release: Release{Engine: file.Engine, Version: file.Version, Quantization: file.Quantization, QuantizationDeprecated: file.Deprecated,
			LoadFormats: file.LoadFormats, PreviouslySupported: file.PreviouslySupported, OutOfTree: file.OutOfTree}}
	var flat []string
	if json.Unmarshal(file.Architectures, &flat) == nil && flat != nil {
		t.release.Architectures = map[string][]string{"": flat}
	} else if err := json.Unmarshal(file.Architectures, &t.release.Architectures); err != nil && file.Architectures != nil {
		return nil, fmt.Errorf("architectures: %w", err)
	}
	for _, fields := range t.classes {
		for _, f := range fields {
			f.HasDefault = f.RawDefault != nil
			f.Default = constant(f.RawDefault)
		}
	}
	err := inOrder(file.Options, func(name string, raw json.RawMessage) error {
		o := &option{Name: name}
		if err := json.Unmarshal(raw, o); err != nil {
			return fmt.Errorf("option %s: %w", name, err)
		}
		t.addRead(o)
		return nil
	})
	return t, err
}

// addRead adds an option with what its engine's parser does and the source
// reading could not see.
func (t *table) addRead(o *option) {
	switch {
	case t.engine == SGLang:
		o.NoneIsNull = false // its parsers take the bare type; the record only says that null is the default
		if o.Type == "human_int" {
			o.Type = "si_int"
		}
	case o.NoneIsNull && len(o.RawChoices) > 0 && t.since("0.32.0"):
		o.RawChoices = append(o.RawChoices, nil) // before, the text "None" was allowed, and null never is that text
	case o.Name == "lora-modules":
		o.Action = "LoRAParserAction"
	case o.Name == "hf-token" && o.RawConst == nil:
		o.RawConst = json.RawMessage("true")
	case slices.Contains([]string{"speculative-config", "watermark-config", "diffusion-config"}, o.Name):
		o.Late = true
	}
	if t.byFlag["--help"] == nil && !o.Positional && o.Name != "help" {
		t.add(&option{Name: "help", Type: "bool", Short: []string{"-h"}, Action: "help", Unset: true})
	}
	t.add(o)
}

// borrow takes the types of the JSON options' fields from the live catalogue,
// where a field of the same class and name exists: releases that were read from
// source have the names only.
func (t *table) borrow(live *table) {
	for class, fields := range t.classes {
		for name, f := range fields {
			known := live.classes[class][name]
			if f.Type == "" && known != nil && (known.class() == "" || t.classes[known.class()] != nil) {
				f.Type = known.Type
			}
		}
	}
}

// since reports whether the release is this one or a later one.
func (t *table) since(version string) bool { return slices.Compare(t.order, numbers(version)) >= 0 }

// does reports whether the release reads configuration in a recorded way.
func (t *table) does(what string, how any) bool { return t.behaviour[what] == how }
