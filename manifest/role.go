package manifest

import (
	"path"
	"strings"
)

// roleByName judges an engine file by its name. Deploy files get their role
// from their reader.
func roleByName(part Part, file string) Role {
	switch ext := strings.ToLower(path.Ext(file)); {
	case part == Engine && (ext == ".yaml" || ext == ".yml" || ext == ".json"):
		return EngineConfig
	case part == Engine && ext == ".jinja":
		return ChatTemplate
	}
	return Other
}
