package playbooks

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// A runbook is the team's own Markdown page about a playbook. It says which step
// a passage is about by a mark of its own line:
//
//	<!-- drkit:step boot -->        … the step's text …      <!-- drkit:end -->
//	## Boot the canary {#step-boot} … the step's text, up to the next heading
//
// What stands outside of passages is the team's own.

const ends = "<!-- drkit:end -->"

func begins(id string) string { return "<!-- drkit:step " + id + " -->" }

// Drift is one difference between a runbook and its playbook.
type Drift struct {
	Line int // of the runbook; 0 for what is not in it
	Step string
	What string
}

// String is the difference with its line, without the runbook's name.
func (d Drift) String() string {
	if d.Line == 0 {
		return fmt.Sprintf("step %s: %s", d.Step, d.What)
	}
	return fmt.Sprintf("line %d: step %s: %s", d.Line, d.Step, d.What)
}

// CheckRunbook compares a runbook's passages with the playbook's steps and returns
// every difference: a step that is missing or too many, another order, another
// text. Texts are compared word by word, so that lines may be broken elsewhere.
func CheckRunbook(p Playbook, markdown []byte) []Drift {
	found, drifts := passages(string(markdown))
	first := map[string]int{}
	var kept []passage // the first passage of each step of the playbook
	for _, s := range found {
		line, again := first[s.step]
		at := slices.IndexFunc(p.Steps, func(o Step) bool { return o.ID == s.step })
		switch {
		case again:
			drifts = append(drifts, Drift{s.line, s.step, fmt.Sprintf("is already on line %d", line)})
			continue
		case at < 0:
			drifts = append(drifts, Drift{s.line, s.step, "is not in the playbook"})
		default:
			kept = append(kept, s)
			if what := differs(s.text, p.Steps[at].Text); what != "" {
				drifts = append(drifts, Drift{s.line, s.step, what})
			}
		}
		first[s.step] = s.line
	}
	for _, s := range p.Steps {
		if _, there := first[s.ID]; !there {
			drifts = append(drifts, Drift{Step: s.ID, What: "is missing from the runbook: " + begins(s.ID) + " marks it"})
		}
	}
	return append(drifts, order(p, kept)...)
}

// order compares the order of the passages with that of the steps they are about.
func order(p Playbook, kept []passage) (drifts []Drift) {
	var want []string
	for _, s := range p.Steps {
		if slices.ContainsFunc(kept, func(o passage) bool { return o.step == s.ID }) {
			want = append(want, s.ID)
		}
	}
	for i, s := range kept {
		if s.step != want[i] {
			return []Drift{{s.line, s.step, fmt.Sprintf("stands where the playbook has %s", want[i])}}
		}
	}
	return nil
}

// differs says where two texts begin to differ, "" when they have the same words.
func differs(runbook, playbook string) string {
	a, b := strings.Fields(runbook), strings.Fields(playbook)
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	if n == len(a) && n == len(b) {
		return ""
	}
	return fmt.Sprintf("its text differs from word %d on: the runbook says %s, the playbook %s", n+1, words(a, n), words(b, n))
}

// words quotes a few words from the nth on.
func words(all []string, n int) string {
	if n == len(all) {
		return "no more"
	}
	rest := all[n:min(n+6, len(all))]
	text := strings.Join(rest, " ")
	if n+len(rest) < len(all) {
		text += " …"
	}
	return fmt.Sprintf("%q", text)
}

// passage is what a runbook says of one step.
type passage struct {
	step, text string
	line       int
	marked     bool // by comments: only an end mark closes it
}

var (
	stepMark   = regexp.MustCompile(`^\s*<!--\s*drkit:step\s+(\S+)\s*-->\s*$`)
	endMark    = regexp.MustCompile(`^\s*<!--\s*drkit:end\s*-->\s*$`)
	anyMark    = regexp.MustCompile(`<!--\s*drkit:`)
	heading    = regexp.MustCompile(`^ {0,3}#{1,6}(\s|$)`)
	anchor     = regexp.MustCompile(`\{#step-([^}\s]*)\}\s*#*\s*$`)
	fenceMarks = regexp.MustCompile("^ {0,3}(`{3,}|~{3,})")
)

// passages reads a runbook. Marks inside code blocks are text. A mark that is not
// closed, or that cannot be read, is a difference of its own.
func passages(markdown string) (all []passage, drifts []Drift) {
	var now *passage
	var lines []string
	fence := ""
	end := func() {
		if now != nil {
			now.text = strings.Join(lines, "\n")
			all = append(all, *now)
		}
		now, lines = nil, nil
	}
	unclosed := func() {
		if now != nil && now.marked {
			drifts = append(drifts, Drift{now.line, now.step, "has no end: " + ends + " closes it"})
		}
		end()
	}
	for i, line := range strings.Split(markdown, "\n") {
		line = strings.TrimRight(line, "\r")
		inside := fence != ""
		fence = fenced(fence, line)
		mark, head := stepMark.FindStringSubmatch(line), heading.MatchString(line)
		switch {
		case inside || fence != "":
			lines = append(lines, line)
		case mark != nil:
			unclosed()
			now = &passage{step: mark[1], line: i + 1, marked: true}
		case endMark.MatchString(line) && (now == nil || !now.marked):
			drifts = append(drifts, Drift{i + 1, "?", "an end without a beginning"})
		case endMark.MatchString(line):
			end()
		case anyMark.MatchString(line):
			drifts = append(drifts, Drift{i + 1, "?", fmt.Sprintf("a mark that cannot be read: %q (it takes a line of its own, such as %s)", strings.TrimSpace(line), begins("boot"))})
		case head && (now == nil || !now.marked):
			end()
			if m := anchor.FindStringSubmatch(line); m != nil {
				now = &passage{step: m[1], line: i + 1}
			}
		default:
			lines = append(lines, line)
		}
	}
	unclosed()
	return all, drifts
}

// fenced is the fence of the code block that goes on after line, "" for none.
func fenced(fence, line string) string {
	m := fenceMarks.FindStringSubmatch(line)
	switch {
	case m == nil:
		return fence
	case fence == "":
		return m[1]
	case m[1][0] == fence[0] && len(m[1]) >= len(fence) && strings.TrimSpace(line) == m[1]:
		return ""
	}
	return fence
}
