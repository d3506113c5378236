// Package engine predicts what vLLM and SGLang make of their configuration: the
// YAML file given with --config, and the command line. It answers, without
// Python, which options take effect, where each came from, whether the process
// would exit before it loads a model, and with which words; and what another
// release of the engine would make of the same.
//
// Begin with Parse for a command line, or ReadFile for a YAML file alone:
//
//	result := engine.Parse(engine.Command{Argv: []string{"serve", "/models/a", "--config", "e.yaml"}, Files: files})
//	if result.WouldExit != nil { … result.Error is what the operator would read … }
//
// The path is the one that the engine itself takes: the file is read by the
// rules of PyYAML (YAML 1.1: yes is true, 12:30 is 750), flattened into
// arguments, merged into the command line, and parsed by the rules of Python
// 3.11's argparse with the option catalogue of the release (see Releases).
// testdata/flattening.jsonl holds 170 command lines with the answers of vLLM
// 0.32.0 itself, testdata/releases.jsonl what the parsers of other releases made
// of random ones.
//
// What is not predicted: checks after parsing, such as ranges, whether the model
// exists, or whether a GPU can do it.
package engine

// Problem is something in a configuration that a person should know. Content
// that is merely wrong is a Problem, never an error.
type Problem struct {
	Path string // file, or "" for the command line
	Line int    // 1-based; 0 when the place has no line
	Kind string // one of the Kind constants
	What string // one sentence that says what is wrong and what to write instead
	Seen string // what the engine itself would print, if it says anything

	Option string // the option as it was given, where there is one
}

// Kinds of problems. They are stable words; rules refer to them.
const (
	KindSyntax           = "yaml-syntax"        // the file is no YAML: the engine exits
	KindNotMapping       = "not-a-mapping"      // the top level is no mapping: the engine exits
	KindBadKey           = "bad-key"            // a key is no text: the engine exits
	KindDuplicateKey     = "duplicate-key"      // one key twice in a mapping: the last one wins in silence
	KindRepeatedOption   = "repeated-option"    // one option twice: the last one wins
	KindUnknownOption    = "unknown-option"     // no such option: the engine exits
	KindAmbiguousOption  = "ambiguous-option"   // a prefix of several options: the engine exits
	KindAbbreviated      = "abbreviated-option" // a prefix of one option: works until a later version adds another
	KindExtraValue       = "extra-value"        // a value where none is taken: the engine exits
	KindNullValue        = "null-value"         // null becomes the text "None"
	KindFalseDropped     = "false-dropped"      // false is dropped and the default stays
	KindConfigEquals     = "config-equals"      // --config=FILE: the file is never read
	KindConfigNested     = "config-in-config"   // config: inside a configuration file is never read
	KindTwoConfigs       = "two-configs"        // more than one --config: the engine exits
	KindConfigMissing    = "config-missing"     // the file is not there, or was not given to drkit
	KindBadSuffix        = "bad-suffix"         // the file's name does not end in .yaml or .yml: the engine exits
	KindBadValue         = "bad-value"          // a value that the option refuses: the engine exits
	KindUncertainValue   = "uncertain-value"    // a value that the catalogue does not list and the engine may refuse later
	KindUnknownField     = "unknown-field"      // a field of a JSON option that its class lacks: the engine exits
	KindOverridden       = "overridden"         // a JSON value that dotted options replace whole
	KindModelTwice       = "model-twice"        // a model on the command line and another one in the file
	KindModelMissing     = "model-missing"      // no model where one is needed
	KindModelIgnored     = "model-ignored"      // a positional model that this entry point does not look at
	KindDeprecated       = "deprecated-option"  // announced for removal
	KindMissingCompanion = "missing-companion"  // one option needs another: the engine exits
	KindTemplateMissing  = "template-missing"   // chat-template names a file that is not there: the engine exits
	KindExitsAtOnce      = "exits-at-once"      // --help, --version
	KindOtherCommand     = "other-command"      // not a command that serves a model: not judged
	KindOtherVersion     = "version-not-known"  // options of this version are not recorded: another release's are used
	KindUnreadVariable   = "unread-variable"    // a variable of the engine that this release does not read
	KindFieldDropped     = "field-dropped"      // an unknown field of a JSON option that the release drops in silence
	KindPlainSecret      = "plain-secret"       // a key or token in plain text
	KindNotJudged        = "not-judged"         // something that this package does not model
)

// Entry is the program that reads the command line.
type Entry string

// The entry points that serve a model.
const (
	EntryCLI       Entry = "vllm"          // vllm serve …
	EntryAPIServer Entry = "api_server"    // python -m vllm.entrypoints.openai.api_server …
	EntryLaunch    Entry = "launch_server" // python -m sglang.launch_server …
	EntrySGLang    Entry = "sglang"        // sglang serve …
)

// Engine is the engine that the program belongs to: VLLM or SGLang.
func (e Entry) Engine() string {
	if e == EntryLaunch || e == EntrySGLang {
		return SGLang
	}
	return VLLM
}

// Source is where an argument comes from: a line of a file, an environment
// variable, or, with neither, the command line itself.
type Source struct {
	Path string `json:"path,omitempty"`
	Line int    `json:"line,omitempty"`
	Env  string `json:"env,omitempty"` // the variable whose value holds it
}

// Command is one command line with the files that it can see.
type Command struct {
	Argv    []string          // after the program's name: "serve", "/models/a", …
	Sources []Source          // where each argument comes from; what is missing comes from Path and Line
	Entry   Entry             // "" means EntryCLI
	Version string            // of the engine, such as 0.32.0; "" means the release that drkit knows best
	Files   map[string][]byte // contents by the path that the command line uses
	// AllFiles says that Files holds everything that the process will find.
	// Without it, a file that is missing here is not judged: it may come from
	// an image or a mounted volume.
	AllFiles bool
	Env      map[string]string // of the process; its values are never shown
	Path     string            // where the command line was found, for problems
	Line     int
}

// Result is what the engine makes of a command.
type Result struct {
	Model    string         // the model that would be served
	Options  map[string]any // effective options by destination name, those that differ from their defaults
	Unknown  []string       // options that the release does not have
	Expanded []string       // the arguments after the file was merged in; secrets are masked

	Engine  string            // VLLM or SGLang
	Version string            // the release whose options were used
	Sources map[string]Source // where each effective option, and each unknown one, was given

	// WouldExit is the status that the engine would exit with while it reads
	// its configuration: 2 from argparse, 1 from an exception, 0 from --help.
	// nil: parsing succeeds.
	WouldExit *int
	ErrorType string // "argparse" or the Python exception
	Error     string // what it prints; white space is joined to single spaces

	// Judged is false when something kept the prediction from being whole, such
	// as a configuration file that was not given. Problems says what.
	Judged   bool
	Problems []Problem

	table *table
}

// failure ends the reading of a configuration as the engine would end it.
type failure struct {
	exit      int
	errorType string
	text      string // the engine's words
	kind      string
	what      string
	path      string
	line      int
	option    string
}

func (f *failure) problem() Problem {
	return Problem{Path: f.path, Line: f.line, Kind: f.kind, What: f.what, Seen: f.text, Option: f.option}
}
