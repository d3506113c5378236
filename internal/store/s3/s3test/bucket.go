package s3test

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"
)

// maxPage is how many entries S3 returns in one listing.
const maxPage = 1000

// nullVersion is the id of an object in a bucket without versions.
const nullVersion = "null"

type bucket struct {
	name        string
	opts        BucketOptions
	created     time.Time
	versioning  string // "", Enabled or Suspended
	objects     map[string][]*version
	uploads     map[string]*upload
	denials     []denial
	replication []byte // the rules as they were put
	rules       replicationDoc
	frozen      []entry // what listings show instead
	sorted      []entry // cache of current, nil after a change
}

type denial struct {
	prefix     string
	operations []string
}

// version is one version of an object, or a delete marker.
type version struct {
	id          string
	marker      bool
	data        []byte
	etag        string // with quotes
	sum         checksum
	parts       []part
	headers     map[string]string // what GET returns again: metadata, content type
	kmsKey      string
	replication string
	lockMode    string
	lockUntil   time.Time
	legalHold   bool
	modified    time.Time
	change      uint64 // when it came, in changes
}

// part is one part of a finished multipart object.
type part struct {
	number int
	size   int64
	sum    checksum // zero when the client gave none
}

// entry is one line of a listing.
type entry struct {
	key string
	v   *version
}

func newBucket(name string, o BucketOptions, region string) *bucket {
	o.Region = cmp.Or(o.Region, region)
	b := &bucket{name: name, opts: o, created: time.Now().UTC(), objects: map[string][]*version{}, uploads: map[string]*upload{}}
	if o.Versioning || o.ObjectLock {
		b.versioning = "Enabled"
	}
	return b
}

// latest is the newest version of a key, which may be a delete marker, or nil.
func (b *bucket) latest(key string) *version {
	all := b.objects[key]
	if len(all) == 0 {
		return nil
	}
	return all[len(all)-1]
}

// current lists the objects that a reader sees, sorted by key.
func (b *bucket) current() []entry {
	if b.frozen != nil {
		return b.frozen
	}
	if b.sorted != nil {
		return b.sorted
	}
	all := make([]entry, 0, len(b.objects))
	for key := range b.objects {
		if v := b.latest(key); v != nil && !v.marker {
			all = append(all, entry{key, v})
		}
	}
	slices.SortFunc(all, func(a, b entry) int { return strings.Compare(a.key, b.key) })
	b.sorted = all
	return all
}

// add makes v the newest version of a key.
func (b *bucket) add(key string, v *version, serial uint64) {
	b.sorted = nil
	v.change = serial
	if b.versioning == "Enabled" {
		v.id = fmt.Sprintf("v%016x", serial)
		b.objects[key] = append(b.objects[key], v)
		return
	}
	v.id = nullVersion
	rest := slices.DeleteFunc(b.objects[key], func(o *version) bool { return o.id == nullVersion })
	b.objects[key] = append(rest, v)
}

// drop removes one version of a key for good.
func (b *bucket) drop(key, id string) {
	b.sorted = nil
	rest := slices.DeleteFunc(b.objects[key], func(o *version) bool { return o.id == id })
	if b.objects[key] = rest; len(rest) == 0 {
		delete(b.objects, key)
	}
}

// find returns the version that a request names.
func (b *bucket) find(key, id string) (*version, error) {
	if id == "" {
		v := b.latest(key)
		if v == nil {
			return nil, fail(404, "NoSuchKey", "The specified key does not exist.").with("Key", key)
		}
		if v.marker {
			return nil, fail(404, "NoSuchKey", "The specified key does not exist.").with("Key", key).header("x-amz-delete-marker", "true")
		}
		return v, nil
	}
	for _, v := range b.objects[key] {
		if v.id == id && v.marker {
			return nil, fail(405, "MethodNotAllowed", "The specified method is not allowed against this resource.").header("x-amz-delete-marker", "true")
		}
		if v.id == id {
			return v, nil
		}
	}
	return nil, fail(404, "NoSuchVersion", "The specified version does not exist.").with("Key", key).with("VersionId", id)
}

// denies reports whether a request may not be answered.
func (b *bucket) denies(operation, key, listed string) bool {
	return slices.ContainsFunc(b.denials, func(d denial) bool {
		if len(d.operations) > 0 && !slices.Contains(d.operations, operation) {
			return false
		}
		if strings.HasPrefix(operation, "ListObject") {
			return strings.HasPrefix(listed, d.prefix) || strings.HasPrefix(d.prefix, listed)
		}
		return strings.HasPrefix(key, d.prefix)
	})
}

// parentIsFile reports whether a file system could not hold the key beside what
// is there: a key that is a folder of another.
func (b *bucket) parentIsFile(key string) bool {
	for i := range key {
		if key[i] == '/' && b.visible(key[:i]) {
			return true
		}
	}
	all := b.current()
	i := sort.Search(len(all), func(i int) bool { return all[i].key >= key+"/" })
	return i < len(all) && strings.HasPrefix(all[i].key, key+"/")
}

func (b *bucket) visible(key string) bool {
	v := b.latest(key)
	return v != nil && !v.marker
}
