package deploy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The reader of Dockerfiles is our own, and small: it needs the images of FROM,
// COPY --from, RUN --mount=from and the syntax line, nothing else. BuildKit's
// parser would do that, too, but raises the Go version that drkit asks for and
// brings protobuf and containerd types with it. testdata/dockerfiles was compared
// with BuildKit's parser.

// instruction is one instruction with the lines that it was continued over.
type instruction struct {
	name  string // in capitals
	rest  string
	line  int
	parts []part // the physical lines, for places inside a long RUN
}

type part struct {
	text string
	line int
}

func readDockerfile(file string, data []byte) (Facts, []Problem) {
	f := &found{facts: Facts{Path: file, Role: Dockerfile, Format: "dockerfile"}}
	if !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0 {
		f.note(0, KindDockerfile, "the file is no text, so its images are not known")
		return f.facts, f.problems
	}
	escape, syntax := directives(data)
	if syntax.text != "" {
		f.image(syntax.text, syntax.line, func(i *Image) { i.Frontend = true })
	}
	d := &dockerfile{found: f, args: map[string]string{}, stages: map[string]bool{}}
	for _, in := range instructions(data, escape) {
		d.instruction(in, false)
	}
	d.start()
	if d.froms == 0 {
		f.note(0, KindDockerfile, "the file has no FROM that a builder accepts, so its images are not known")
	}
	return f.facts, f.problems
}

var directive = regexp.MustCompile(`^#\s*([a-zA-Z][a-zA-Z0-9]*)\s*=\s*(.+?)\s*$`)

// directives reads the parser directives at the top: escape and syntax.
func directives(data []byte) (escape byte, syntax part) {
	escape = '\\'
	for i, line := range bytes.Split(data, []byte("\n")) {
		text := strings.TrimPrefix(strings.TrimRight(string(line), "\r"), "\ufeff")
		m := directive.FindStringSubmatch(text)
		if m == nil {
			break
		}
		switch strings.ToLower(m[1]) {
		case "escape":
			if m[2] == "`" {
				escape = '`'
			}
		case "syntax":
			syntax = part{m[2], i + 1}
		}
	}
	return escape, syntax
}

// heredoc matches a word that opens a here-document: <<EOF, <<-"EOF", 3<<EOF.
var heredoc = regexp.MustCompile(`^[0-9]*<<(-?)(?:([^<"']+)|"([^<"']+)"|'([^<"']+)')$`)

// instructions joins continued lines and leaves out comments and here-documents.
func instructions(data []byte, escape byte) []instruction {
	lines := strings.Split(strings.TrimPrefix(string(data), "\ufeff"), "\n")
	var out []instruction
	for i := 0; i < len(lines); i++ {
		text := strings.TrimSpace(lines[i])
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		in, next := join(lines, i, escape)
		if slices.Contains([]string{"RUN", "COPY", "ADD", "ONBUILD"}, in.name) {
			next = skipHeredocs(in.rest, lines, next)
		}
		out = append(out, in)
		i = next - 1
	}
	return out
}

// join reads the instruction that begins at line i and returns the line after it.
func join(lines []string, i int, escape byte) (instruction, int) {
	in := instruction{line: i + 1}
	var all strings.Builder
	for ; i < len(lines); i++ {
		text := strings.TrimRight(lines[i], " \t\r")
		if trimmed := strings.TrimSpace(text); in.parts != nil && (trimmed == "" || strings.HasPrefix(trimmed, "#")) {
			continue // comments and empty lines inside a continued instruction do not end it
		}
		more := strings.HasSuffix(text, string(escape))
		if more {
			text = text[:len(text)-1]
		}
		in.parts = append(in.parts, part{text, i + 1})
		all.WriteString(text)
		if !more {
			i++
			break
		}
	}
	name, rest, _ := strings.Cut(strings.TrimLeft(strings.ReplaceAll(all.String(), "\t", " "), " "), " ")
	in.name, in.rest = strings.ToUpper(name), strings.TrimSpace(rest)
	return in, i
}

// skipHeredocs returns the line after the here-documents that an instruction opens.
func skipHeredocs(rest string, lines []string, next int) int {
	for word := range strings.FieldsSeq(rest) {
		m := heredoc.FindStringSubmatch(word)
		if m == nil {
			continue
		}
		end := m[2] + m[3] + m[4]
		for j := next; j < len(lines); j++ {
			text := strings.TrimRight(lines[j], "\r")
			if m[1] == "-" {
				text = strings.TrimLeft(text, "\t")
			}
			if text == end {
				next = j + 1
				break
			}
		}
	}
	return next
}

type dockerfile struct {
	*found
	args   map[string]string // defaults of ARG before the first FROM
	stages map[string]bool   // names and numbers of stages seen so far
	froms  int

	entrypoint, cmd *instruction // of the last stage
	env             map[string]string
	base            string // image of the last stage
}

func (d *dockerfile) instruction(in instruction, onBuild bool) {
	switch in.name {
	case "ARG":
		if d.froms == 0 {
			d.arg(in)
		}
		d.secret(in)
	case "ENV":
		d.secret(in)
		d.setEnv(in)
	case "ENTRYPOINT":
		if !onBuild {
			d.entrypoint, d.cmd = &in, nil // it resets a CMD that came before
		}
	case "CMD":
		if !onBuild {
			d.cmd = &in
		}
	case "FROM":
		d.from(in)
	case "COPY", "ADD":
		d.copy(in)
	case "RUN":
		d.run(in)
	case "ONBUILD":
		if !onBuild {
			name, rest, _ := strings.Cut(in.rest, " ")
			in.name, in.rest = strings.ToUpper(name), strings.TrimSpace(rest)
			d.instruction(in, true)
		}
	}
}

func (d *dockerfile) arg(in instruction) {
	for _, word := range words(in.rest) {
		if name, value, ok := strings.Cut(word, "="); ok {
			value, _, _ = expand(value, d.value)
			d.args[name] = value
		}
	}
}

func (d *dockerfile) value(name string) (string, bool) {
	v, ok := d.args[name]
	return v, ok
}

// from reads FROM [--platform=…] IMAGE [AS NAME].
func (d *dockerfile) from(in instruction) {
	fields := slices.DeleteFunc(words(in.rest), func(s string) bool { return strings.HasPrefix(s, "--") })
	if len(fields) != 1 && (len(fields) != 3 || !strings.EqualFold(fields[1], "as")) {
		d.note(in.line, KindDockerfile, "FROM takes an image, and AS with a name behind it if the stage has one")
		return
	}
	d.reference(fields[0], in.line)
	d.entrypoint, d.cmd, d.env = nil, nil, map[string]string{}
	d.base, _, _ = expand(fields[0], d.value)
	d.stages[strconv.Itoa(d.froms)] = true
	d.froms++
	if len(fields) == 3 {
		d.stages[strings.ToLower(fields[2])] = true
	}
}

// reference adds an image unless it names a stage or scratch.
func (d *dockerfile) reference(raw string, line int) {
	reference, used, whole := expand(raw, d.value)
	if !whole {
		reference = raw
	}
	if reference == "scratch" || d.stages[strings.ToLower(reference)] {
		return
	}
	if reference == "" {
		d.note(line, KindDockerfile, fmt.Sprintf("%q names no image", raw))
		return
	}
	d.image(reference, line, func(i *Image) { i.FromArgs = used })
}

// copy reads COPY and ADD: an image that --from names, or else the files of the
// build context. The last word is where they go.
func (d *dockerfile) copy(in instruction) {
	args, context := words(in.rest), true
	for len(args) > 0 && strings.HasPrefix(args[0], "--") {
		if from, ok := strings.CutPrefix(args[0], "--from="); ok {
			context = false
			d.reference(from, in.line)
		}
		args = args[1:]
	}
	var list []string
	if json.Unmarshal([]byte(strings.TrimSpace(in.rest)), &list) == nil {
		args = list
	}
	if !context || len(args) < 2 {
		return
	}
	for _, source := range args[:len(args)-1] {
		if !strings.Contains(source, "://") && !heredoc.MatchString(source) {
			d.facts.Copied = append(d.facts.Copied, Copy{Source: source, Line: in.lineOf(source)})
		}
	}
}

// run reads the --mount options of RUN; a mount may bind a path of an image or
// of the build context.
func (d *dockerfile) run(in instruction) {
	for _, word := range words(in.rest) {
		if !strings.HasPrefix(word, "--") {
			return
		}
		mount, ok := strings.CutPrefix(word, "--mount=")
		if !ok {
			continue
		}
		d.mount(in, mount)
	}
}

func (d *dockerfile) mount(in instruction, mount string) {
	kind, source, context := "bind", "", true
	for option := range strings.SplitSeq(mount, ",") {
		switch name, value, _ := strings.Cut(strings.TrimSpace(option), "="); name {
		case "type":
			kind = value
		case "source", "src":
			source = strings.Trim(value, `"'`)
		case "from":
			context = false
			d.reference(strings.Trim(value, `"'`), in.lineOf("from="+value))
		}
	}
	if kind == "bind" && context && source != "" {
		d.facts.Copied = append(d.facts.Copied, Copy{Source: source, Line: in.lineOf(source)})
	}
}

// lineOf is the physical line that holds the text, else the first line.
func (in instruction) lineOf(text string) int {
	for _, p := range in.parts {
		if strings.Contains(p.text, text) {
			return p.line
		}
	}
	return in.line
}

// start adds the engine that the last stage starts by itself.
func (d *dockerfile) start() {
	var all []argument
	e := EngineCommand{Path: d.facts.Path, Image: d.base, Version: imageVersion(d.base), Env: d.env, Exact: true}
	for _, in := range []*instruction{d.entrypoint, d.cmd} {
		if in == nil {
			continue
		}
		if e.Line == 0 {
			e.Line = in.line
		}
		all = append(all, typed(in.line, execForm(in.rest)...)...)
	}
	command, args := all, []argument(nil)
	if d.entrypoint == nil { // CMD alone goes to the base image's entry point
		command, args = nil, all
	}
	argv, ok := d.engineArgv(&e, command, args)
	if !ok {
		return
	}
	d.add(&e, argv, false)
}

// execForm reads ENTRYPOINT and CMD: a JSON list, or text for a shell.
func execForm(rest string) []string {
	var list []string
	if json.Unmarshal([]byte(rest), &list) == nil {
		return list
	}
	return []string{"/bin/sh", "-c", rest}
}

func (d *dockerfile) setEnv(in instruction) {
	for _, word := range words(in.rest) {
		if name, value, ok := strings.Cut(word, "="); ok && d.env != nil {
			d.env[name] = value
		}
	}
}

// secret reports ARG and ENV that set a secret: it stays in the image's history.
func (d *dockerfile) secret(in instruction) {
	fields := words(in.rest)
	if in.name == "ENV" && len(fields) >= 2 && !strings.Contains(fields[0], "=") { // ENV NAME value
		fields = []string{fields[0] + "=" + strings.Join(fields[1:], " ")}
	}
	for _, word := range fields {
		if name, value, ok := strings.Cut(word, "="); ok && secretPair(name, value) {
			d.note(in.lineOf(name), KindPlainSecret, fmt.Sprintf("%s %s is a secret in plain text and stays in the image; use a build secret", in.name, name))
		}
	}
}
