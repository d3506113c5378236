package service

import (
	"fmt"
	"regexp"
	"strings"

	"drkit/internal/strictyaml"
)

// looksSecret matches values that are credentials by their form, wherever they
// stand: keys of AWS, Hugging Face, OpenAI-like services, GitHub and GitLab, bearer
// tokens, JSON web tokens, private keys, passwords inside URLs.
var looksSecret = regexp.MustCompile(`\bA(KIA|SIA)[0-9A-Z]{16}\b` +
	`|\bhf_[A-Za-z0-9]{20,}` +
	`|\bsk-[A-Za-z0-9_-]{20,}` +
	`|\b(ghp|gho|ghs|github_pat|glpat|xox[abp])[_-][A-Za-z0-9_-]{16,}` +
	`|(?i:\bbearer\s+[A-Za-z0-9._~+/=-]{8,})` +
	`|\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.` +
	`|-----BEGIN [A-Z ]*PRIVATE KEY-----` +
	`|://[^/\s:@]+:[^/\s@]+@`)

var (
	// secretName matches names of variables that hold a secret themselves: HF_TOKEN,
	// VLLM_API_KEY, but not TOKENIZERS_PARALLELISM or HF_TOKEN_PATH.
	secretName = regexp.MustCompile(`(?i)(^|[_-])(token|secret|password|passwd|(api|access|private|secret)[_-]?key|credentials?)$`)
	// harmless matches values that are not secrets whatever they are called: empty,
	// numbers, truth values, references to the environment and placeholders.
	harmless = regexp.MustCompile(`^(\d*|true|false|\$\w+|\$\{\w+\}|\$\(\w+\)|\{\{.*\}\})$`)
	// secretFlag matches a command line flag that takes a secret.
	secretFlag = regexp.MustCompile(`(?i)^--?([a-z-]*(api-?keys?|token|password|secret))(=.*)?$`)
)

const secretHint = "secrets come from the environment: name the variable (…_env), or set it where drkit runs"

// secrets refuses credentials in plain text. It never says what it saw.
// What was refused already is not refused again.
func (v validator) secrets() {
	for at := range v.Paths() {
		if looksSecret.MatchString(v.Text(at)) && !v.Faulty(at) {
			v.Report(at, "holds what looks like a secret", secretHint)
		}
	}
	for name, value := range v.s.Engine.Env {
		at := strictyaml.Join("engine.env", name)
		switch {
		case v.Faulty(at) || harmless.MatchString(value):
		case secretName.MatchString(name), isAWSSecret(value):
			v.Report(at, "holds a secret", secretHint)
		}
	}
	v.flags("engine.args", v.s.Engine.Args)
	v.flags("rehearsal.router.command", v.s.Rehearsal.Router.Command)
	for i, r := range v.s.Regions {
		v.flags(fmt.Sprintf("regions[%d].canary.command", i), r.Canary.Command)
	}
}

var (
	base64x40 = regexp.MustCompile(`^[A-Za-z0-9/+]{40}$`)
	classes   = []*regexp.Regexp{regexp.MustCompile(`[A-Z]`), regexp.MustCompile(`[a-z]`), regexp.MustCompile(`[0-9]`)}
)

// isAWSSecret recognises 40 signs of base64 with all classes of signs, which
// neither a path nor a SHA-1 in hexadecimal has.
func isAWSSecret(value string) bool {
	for _, c := range classes {
		if !c.MatchString(value) {
			return false
		}
	}
	return base64x40.MatchString(value) && !strings.HasPrefix(value, "/")
}

// flags refuses a secret that is given to a flag: --api-key KEY, --api-key=KEY.
func (v validator) flags(at string, args []string) {
	for i, a := range args {
		m := secretFlag.FindStringSubmatch(a)
		if m == nil {
			continue
		}
		where, value := i, strings.TrimPrefix(m[3], "=")
		if m[3] == "" && i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") {
			where, value = i+1, args[i+1]
		}
		path := fmt.Sprintf("%s[%d]", at, where)
		if !harmless.MatchString(value) && !v.Faulty(path) {
			v.Report(path, "holds a secret, the value of "+m[1], secretHint)
		}
	}
}
