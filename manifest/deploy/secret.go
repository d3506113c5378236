package deploy

import (
	"regexp"
	"strings"
)

// secretName matches variables that hold a secret by their last words, so that
// MAX_TOKENS, SECRET_NAME and TOKEN_FILE are none.
var secretName = regexp.MustCompile(`(?i)(^|[_.-])(token|secret|password|passwd|api_?key|access_key|access_key_id|secret_key|private_key|credentials?)$`)

// secretValue matches values that are secrets whatever their name: the tokens of
// well-known services, and private keys.
var secretValue = regexp.MustCompile(`(^|[^A-Za-z0-9])(hf_[A-Za-z0-9]{30,}|sk-[A-Za-z0-9_-]{20,}|gh[pousr]_[A-Za-z0-9]{30,}|AKIA[0-9A-Z]{16}|xox[abp]-[0-9A-Za-z-]{20,}|glpat-[A-Za-z0-9_-]{20,})|-----BEGIN [A-Z ]*PRIVATE KEY-----`)

// notSecret matches values that only point to a secret, or are none.
var notSecret = regexp.MustCompile(`^$|^[/.]|^\$|\{\{|^<.*>$|^(?i:true|false|none|null|changeme|change-me|replace-?me|todo|x+|\*+)$|^[0-9]{1,5}$`)

func secretPair(name, value string) bool {
	value = strings.Trim(strings.TrimSpace(value), `"'`)
	return secretValue.MatchString(value) || secretName.MatchString(name) && !notSecret.MatchString(value)
}
