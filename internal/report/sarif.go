package report

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"

	"drkit/internal/errext"
)

// MaxResults is how many results SARIF holds: GitHub code scanning takes no more
// of one run. The gravest are kept and a notification counts the rest.
const MaxResults = 5000

// sourceRoot is the name by which SARIF calls the repository's root.
const sourceRoot = "%SRCROOT%"

// maxText bounds one text, in bytes: a log that a row quotes may be long.
const maxText = 8 << 10

type sarifLog struct {
	Schema  string     `json:"$schema"`
	Version string     `json:"version"`
	Runs    []sarifRun `json:"runs"`
}

type sarifRun struct {
	Tool struct {
		Driver sarifDriver `json:"driver"`
	} `json:"tool"`
	Automation  *sarifAutomation     `json:"automationDetails,omitempty"`
	Invocations []sarifInvocation    `json:"invocations"`
	Bases       map[string]sarifBase `json:"originalUriBaseIds"`
	ColumnKind  string               `json:"columnKind"`
	Results     []sarifResult        `json:"results"`
	Properties  map[string]string    `json:"properties,omitempty"`
}

type sarifDriver struct {
	Name    string      `json:"name"`
	Version string      `json:"version,omitempty"`
	Rules   []sarifRule `json:"rules"`
}

type sarifRule struct {
	ID      string       `json:"id"`
	Short   sarifText    `json:"shortDescription"`
	Full    sarifText    `json:"fullDescription"`
	Help    *sarifText   `json:"help,omitempty"`
	Default sarifDefault `json:"defaultConfiguration"`
}

type sarifDefault struct {
	Level Level `json:"level"`
}

type sarifText struct {
	Text string `json:"text"`
}

type sarifBase struct {
	Description sarifText `json:"description"`
}

type sarifAutomation struct {
	ID string `json:"id"`
}

type sarifInvocation struct {
	Successful    bool                `json:"executionSuccessful"`
	ExitCode      int                 `json:"exitCode"`
	ExitText      string              `json:"exitCodeDescription"`
	Notifications []sarifNotification `json:"toolExecutionNotifications,omitempty"`
}

type sarifNotification struct {
	Level   Level     `json:"level"`
	Message sarifText `json:"message"`
}

type sarifResult struct {
	RuleID       string             `json:"ruleId"`
	RuleIndex    int                `json:"ruleIndex"`
	Level        Level              `json:"level"`
	Message      sarifText          `json:"message"`
	Locations    []sarifLocation    `json:"locations"`
	Fingerprints map[string]string  `json:"partialFingerprints"`
	Suppressions []sarifSuppression `json:"suppressions"` // of all results or of none: empty is "not suppressed"
	Properties   map[string]string  `json:"properties,omitempty"`
}

type sarifSuppression struct {
	Kind          string `json:"kind"`
	Status        string `json:"status"`
	Justification string `json:"justification"`
}

type sarifLocation struct {
	Physical *sarifPhysical `json:"physicalLocation,omitempty"`
	Logical  []sarifLogical `json:"logicalLocations,omitempty"`
}

type sarifPhysical struct {
	Artifact struct {
		URI  string `json:"uri"`
		Base string `json:"uriBaseId"`
	} `json:"artifactLocation"`
	Region *sarifRegion `json:"region,omitempty"`
}

type sarifRegion struct {
	StartLine int `json:"startLine"`
}

type sarifLogical struct {
	Name string `json:"fullyQualifiedName"`
	Kind string `json:"kind"`
}

// SARIF writes the rows that are no pass as SARIF 2.1.0. A waived row is a
// suppressed result.
func SARIF(w io.Writer, r Result) error {
	rows := r.findings()
	total := len(rows)
	rows = rows[:min(total, MaxResults)]
	run := sarifRun{ColumnKind: "utf16CodeUnits", Results: []sarifResult{},
		Bases: map[string]sarifBase{sourceRoot: {sarifText{"the repository: the folder with .git, else that of drkit.yaml"}}}}
	run.Tool.Driver = sarifDriver{Name: r.Tool, Version: r.Version, Rules: []sarifRule{}}
	if r.Category != "" {
		run.Automation = &sarifAutomation{line(r.Category) + "/"}
	}
	index := map[string]int{}
	for i, rule := range r.ruleList(rows) {
		run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, newSarifRule(rule))
		index[rule.ID] = i
	}
	prints := fingerprints{}
	for _, row := range rows {
		res := newSarifResult(row)
		res.RuleIndex, res.Fingerprints = index[row.ID], prints.of(row)
		run.Results = append(run.Results, res)
	}
	run.Invocations = []sarifInvocation{invocation(r, total)}
	run.Properties = properties(r.Properties)
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(sarifLog{"https://json.schemastore.org/sarif-2.1.0.json", "2.1.0", []sarifRun{run}})
}

// invocation tells a red result from one that could not be had, and counts what
// was left out.
func invocation(r Result, total int) sarifInvocation {
	inv := sarifInvocation{Successful: r.Status == errext.Holds || r.Status == errext.Gate, ExitCode: int(r.Status), ExitText: line(r.Verdict)}
	if left := total - MaxResults; left > 0 {
		inv.Notifications = []sarifNotification{{Warning, sarifText{
			fmt.Sprintf("%s of %d left out: at most %d stand in one run, the gravest first", count(left, "result"), total, MaxResults)}}}
	}
	return inv
}

func newSarifRule(rule Rule) sarifRule {
	title := line(rule.Title)
	if title == "" {
		title = line(rule.ID)
	}
	full := line(rule.Text)
	if full == "" {
		full = title
	}
	s := sarifRule{ID: line(rule.ID), Short: sarifText{title}, Full: sarifText{full}, Default: sarifDefault{sarifLevel(rule.Level)}}
	if rule.Doc != "" {
		s.Help = &sarifText{full + "\nExplained in " + line(rule.Doc)}
	}
	return s
}

// sarifLevel keeps to SARIF's words; a rule without a level warns.
func sarifLevel(l Level) Level {
	switch l {
	case Error, Warning, Note:
		return l
	case Pass:
		return "none"
	}
	return Warning
}

func newSarifResult(row Row) sarifResult {
	text := row.Message
	if subject := row.Subject; subject != "" && subject != row.Path {
		text = subject + ": " + text
	}
	res := sarifResult{RuleID: line(row.ID), Level: sarifLevel(row.Level), Message: sarifText{cut(clean(text+row.details()), maxText)},
		Locations: []sarifLocation{}, Suppressions: []sarifSuppression{}}
	if l, ok := location(row); ok {
		res.Locations = append(res.Locations, l)
	}
	if row.Waived != "" {
		res.Suppressions = append(res.Suppressions, sarifSuppression{"external", "accepted", cut(clean(row.Waived), maxText)})
	}
	if row.Group != "" {
		res.Properties = map[string]string{"severity": line(row.Group)}
	}
	return res
}

// location is a file of the repository, with its line when that is known, and
// the subject in the release.
func location(row Row) (l sarifLocation, ok bool) {
	if row.Path != "" {
		p := &sarifPhysical{}
		p.Artifact.URI, p.Artifact.Base = (&url.URL{Path: strings.ToValidUTF8(row.Path, "\ufffd")}).String(), sourceRoot
		if row.Line > 0 {
			p.Region = &sarifRegion{row.Line}
		}
		l.Physical = p
	}
	if row.Subject != "" {
		l.Logical = []sarifLogical{{line(row.Subject), "resource"}}
	}
	return l, row.Path != "" || row.Subject != ""
}

// fingerprints counts the rows that are about the same thing.
type fingerprints map[string]int

// of identifies a row from run to run: by rule, subject and field, never by its
// line or by figures in its message. GitHub works out its own from the line and
// skips a result without one, which therefore gets it here.
func (f fingerprints) of(row Row) map[string]string {
	sum := sha256.Sum256([]byte(strings.Join([]string{row.ID, row.Subject, row.Path, row.Field}, "\x00")))
	id := hex.EncodeToString(sum[:16])
	f[id]++
	id += ":" + strconv.Itoa(f[id])
	prints := map[string]string{"drkitFinding/v1": id}
	if row.Line < 1 {
		prints["primaryLocationLineHash"] = id
	}
	return prints
}

func properties(all []Property) map[string]string {
	if len(all) == 0 {
		return nil
	}
	m := map[string]string{}
	for _, p := range all {
		m[line(p.Name)] = line(p.Value)
	}
	return m
}
