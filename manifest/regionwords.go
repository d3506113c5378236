package manifest

import (
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// RegionPlaces are the things that drkit.yaml says are a region's own. A file of
// another region must not name them.
type RegionPlaces struct {
	Buckets   []string
	Registry  string   // prefix of its images
	Endpoints []string // URLs of engines, routers and the object store
	Roles     []string // roles and keys that open its store
}

// Classes of the words by which a region is known.
const (
	ofRegistry = "the registry"
	ofBucket   = "the bucket"
	ofEndpoint = "the endpoint"
	ofRole     = "the role or key"
	ofCloud    = "the cloud region"
)

// word is a text by which a thing of one region is known in files.
type word struct {
	class, text string
	at          *regexp.Regexp
}

// cloudName matches regions as AWS, Google Cloud and Azure name them.
var cloudName = regexp.MustCompile(`\b(?:` +
	`(?:us|eu|ap|sa|ca|me|af|il|mx|cn)(?:-gov|-isob?)?-(?:north|south|east|west|central|northeast|northwest|southeast|southwest)-\d` +
	`|(?:us|europe|asia|australia|northamerica|southamerica|me|africa)-(?:north|south|east|west|central|northeast|northwest|southeast|southwest)\d{1,2}` +
	`|(?:north|south|east|west)?(?:central)?(?:us|india|asia)\d?` +
	`|(?:north|west)europe|uk(?:south|west)|(?:east|southeast)asia` +
	`|(?:france|germany|norway|japan|korea|australia|brazil|canada|switzerland|uae|southafrica|sweden|italy|spain|poland|qatar|israel|mexico)(?:north|south|east|west|central|southeast|northeast|westcentral)\d?` +
	`)\b`)

// cloudNames are the cloud regions that a text names. Words such as "us" alone
// are none.
func cloudNames(text string) (out []string) {
	for _, name := range cloudName.FindAllString(strings.ToLower(text), -1) {
		if len(name) > 5 {
			out = append(out, name)
		}
	}
	return out
}

// regionWords are the words of each region that are no other region's too.
func regionWords(regions []RegionSummary) map[string][]word {
	all, users := map[string][]word{}, map[word]map[string]bool{}
	for _, r := range regions {
		for _, w := range r.words() {
			if users[w] == nil {
				users[w] = map[string]bool{}
			}
			users[w][r.Name] = true
		}
	}
	for _, r := range regions {
		for _, w := range r.words() {
			if known := slices.ContainsFunc(all[r.Name], func(o word) bool { return o.text == w.text }); len(users[w]) == 1 && !known {
				w.at = wordAt(w)
				all[r.Name] = append(all[r.Name], w)
			}
		}
	}
	return all
}

// words are a region's words, the most telling class first.
func (r RegionSummary) words() (out []word) {
	add := func(class string, texts ...string) {
		for _, t := range texts {
			if t != "" {
				out = append(out, word{class: class, text: t})
			}
		}
	}
	registry := strings.TrimRight(r.Places.Registry, "/")
	host, _, _ := strings.Cut(registry, "/")
	add(ofRegistry, host, registry)
	add(ofBucket, r.Places.Buckets...)
	for _, raw := range r.Places.Endpoints {
		add(ofEndpoint, ownHost(raw))
	}
	for _, role := range r.Places.Roles {
		if strings.ContainsAny(role, ":/") { // a plain word could mean anything
			add(ofRole, role)
		}
	}
	for _, text := range append([]string{r.Name, registry}, slices.Concat(r.Places.Buckets, r.Places.Endpoints, r.Places.Roles)...) {
		add(ofCloud, cloudNames(text)...)
	}
	return out
}

// everybodys are hosts that serve every region of a cloud.
var everybodys = []string{"s3.amazonaws.com", "storage.googleapis.com"}

// ownHost is the host of a URL, unless it means another machine in every region:
// a loopback address, a name inside a cluster.
func ownHost(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	host := strings.ToLower(u.Hostname())
	ip := net.ParseIP(host)
	if slices.Contains(everybodys, host) {
		return ""
	}
	inside := strings.HasSuffix(host, ".svc") || strings.HasSuffix(host, ".local") || strings.HasSuffix(host, ".localhost")
	if ip != nil && (ip.IsLoopback() || ip.IsUnspecified()) || ip == nil && !strings.Contains(host, ".") || inside {
		return ""
	}
	return host
}

// wordAt finds a word where it stands for itself. A zone is its region's name
// with a letter behind it.
func wordAt(w word) *regexp.Regexp {
	text := regexp.QuoteMeta(w.text)
	switch w.class {
	case ofCloud:
		return regexp.MustCompile(`(?i)(?:^|[^a-z0-9])(` + text + `)-?[a-z]?(?:[^a-z0-9]|$)`)
	case ofRegistry:
		return regexp.MustCompile(`(?i)(?:^|[^a-z0-9.-])(` + text + `)(?:[/:@"',\s]|$)`)
	case ofEndpoint:
		return regexp.MustCompile(`(?i)(?:^|[^a-z0-9.-])(` + text + `)(?:[^a-z0-9.-]|$)`)
	case ofBucket:
		return regexp.MustCompile(`(?:^|[^A-Za-z0-9-])(` + text + `)(?:[^A-Za-z0-9-]|$)`)
	}
	return regexp.MustCompile(`(?:^|[^A-Za-z0-9_-])(` + text + `)(?:[^A-Za-z0-9_-]|$)`)
}
