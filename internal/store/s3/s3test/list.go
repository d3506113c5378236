package s3test

import (
	"encoding/base64"
	"encoding/xml"
	"net/url"
	"sort"
	"strconv"
	"strings"
)

type contentDoc struct {
	Key, LastModified, ETag string
	ChecksumAlgorithm       string `xml:",omitempty"`
	ChecksumType            string `xml:",omitempty"`
	Size                    int64
	StorageClass            string
}

type prefixDoc struct{ Prefix string }

type listDoc struct {
	XMLName               xml.Name `xml:"ListBucketResult"`
	Name, Prefix          string
	Delimiter             string `xml:",omitempty"`
	StartAfter            string `xml:",omitempty"`
	EncodingType          string `xml:",omitempty"`
	ContinuationToken     string `xml:",omitempty"`
	NextContinuationToken string `xml:",omitempty"`
	KeyCount, MaxKeys     int
	IsTruncated           bool
	Contents              []contentDoc `xml:",omitempty"`
	CommonPrefixes        []prefixDoc  `xml:",omitempty"`
}

// listObjects answers ListObjectsV2.
func (c *call) listObjects() error {
	most, err := c.maxKeys()
	if err != nil {
		return err
	}
	q := c.query
	doc := listDoc{Name: c.bucket, MaxKeys: most, EncodingType: q.Get("encoding-type"), ContinuationToken: q.Get("continuation-token")}
	after := q.Get("start-after")
	if doc.ContinuationToken != "" {
		raw, err := base64.URLEncoding.DecodeString(doc.ContinuationToken)
		if err != nil {
			return fail(400, "InvalidArgument", "The continuation token provided is incorrect").with("ArgumentName", "continuation-token")
		}
		after = string(raw)
	}
	c.s.mu.Lock()
	last := doc.fill(c.b.current(), walk{prefix: q.Get("prefix"), delimiter: q.Get("delimiter"), after: after, most: min(most, c.s.opts.PageSize)})
	c.s.mu.Unlock()
	if doc.IsTruncated {
		doc.NextContinuationToken = base64.URLEncoding.EncodeToString([]byte(last))
	}
	encode := encoder(doc.EncodingType)
	doc.Prefix, doc.Delimiter, doc.StartAfter = encode(q.Get("prefix")), encode(q.Get("delimiter")), encode(q.Get("start-after"))
	return c.xml(doc)
}

func (c *call) listObjectsV1() error {
	return notImplemented("ListObjects: use list-type=2")
}

func (c *call) maxKeys() (int, error) {
	if !c.query.Has("max-keys") {
		return maxPage, nil
	}
	n, err := strconv.Atoi(c.query.Get("max-keys"))
	if err != nil || n < 0 {
		return 0, fail(400, "InvalidArgument", "Argument maxKeys must be an integer between 0 and 2147483647")
	}
	return min(n, maxPage), nil
}

// encoder is how keys stand in a document: as they are, or encoded like a form
// with "/" left bare, which is what encoding-type=url means.
func encoder(kind string) func(string) string {
	if kind != "url" {
		return func(s string) string { return s }
	}
	return func(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "%2F", "/") }
}

// walk is what a listing goes through.
type walk struct {
	prefix, delimiter, after string
	most                     int
}

// fill adds a page of entries and returns the last key or prefix on it.
func (d *listDoc) fill(all []entry, w walk) (last string) {
	encode := encoder(d.EncodingType)
	start := max(w.after, w.prefix)
	i := sort.Search(len(all), func(i int) bool { return all[i].key >= start })
	for ; i < len(all) && strings.HasPrefix(all[i].key, w.prefix); i++ {
		key := all[i].key
		shared := w.common(key)
		if key <= w.after || (shared != "" && (shared == last || shared == w.after)) {
			continue
		}
		if d.KeyCount == w.most {
			d.IsTruncated = w.most > 0
			return last
		}
		d.KeyCount++
		if last = key; shared != "" {
			last = shared
			d.CommonPrefixes = append(d.CommonPrefixes, prefixDoc{encode(shared)})
			continue
		}
		d.Contents = append(d.Contents, contentOf(encode(key), all[i].v))
	}
	return last
}

// common is the prefix up to the delimiter that a key is listed under, or "".
func (w walk) common(key string) string {
	if w.delimiter == "" {
		return ""
	}
	i := strings.Index(key[len(w.prefix):], w.delimiter)
	if i < 0 {
		return ""
	}
	return key[:len(w.prefix)+i+len(w.delimiter)]
}

func contentOf(key string, v *version) contentDoc {
	return contentDoc{Key: key, LastModified: v.modified.Format(stamp), ETag: v.etag, Size: int64(len(v.data)), StorageClass: "STANDARD",
		ChecksumAlgorithm: v.sum.algorithm, ChecksumType: v.sum.kind}
}

type versionDoc struct {
	XMLName      xml.Name
	Key          string
	VersionId    string
	IsLatest     bool
	LastModified string
	ETag         string `xml:",omitempty"`
	Size         *int64 `xml:",omitempty"`
	StorageClass string `xml:",omitempty"`
}

type versionsDoc struct {
	XMLName                            xml.Name `xml:"ListVersionsResult"`
	Name, Prefix, KeyMarker            string
	VersionIdMarker                    string
	NextKeyMarker, NextVersionIdMarker string `xml:",omitempty"`
	EncodingType                       string `xml:",omitempty"`
	MaxKeys                            int
	IsTruncated                        bool
	Entries                            []versionDoc
}

// listVersions answers ListObjectVersions: keys sorted, of each key the newest first.
func (c *call) listVersions() error {
	most, err := c.maxKeys()
	if err != nil {
		return err
	}
	q := c.query
	encode := encoder(q.Get("encoding-type"))
	doc := versionsDoc{Name: c.bucket, Prefix: encode(q.Get("prefix")), KeyMarker: encode(q.Get("key-marker")),
		VersionIdMarker: q.Get("version-id-marker"), EncodingType: q.Get("encoding-type"), MaxKeys: most}
	c.s.mu.Lock()
	all := c.b.allVersions(q.Get("prefix"))
	c.s.mu.Unlock()
	all = afterMarker(all, q.Get("key-marker"), q.Get("version-id-marker"))
	if most = min(most, c.s.opts.PageSize); len(all) > most {
		last := all[most-1]
		doc.IsTruncated, doc.NextKeyMarker, doc.NextVersionIdMarker = true, encode(last.Key), last.VersionId
		all = all[:most]
	}
	for _, v := range all {
		v.Key = encode(v.Key)
		doc.Entries = append(doc.Entries, v)
	}
	return c.xml(doc)
}

func (b *bucket) allVersions(prefix string) []versionDoc {
	var keys []string
	for key := range b.objects {
		if strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
	}
	sort.Strings(keys)
	var all []versionDoc
	for _, key := range keys {
		versions := b.objects[key]
		for i := len(versions) - 1; i >= 0; i-- {
			all = append(all, versionDocOf(key, versions[i], i == len(versions)-1))
		}
	}
	return all
}

func versionDocOf(key string, v *version, latest bool) versionDoc {
	d := versionDoc{XMLName: xml.Name{Local: "DeleteMarker"}, Key: key, VersionId: v.id, IsLatest: latest, LastModified: v.modified.Format(stamp)}
	if !v.marker {
		size := int64(len(v.data))
		d.XMLName.Local, d.ETag, d.Size, d.StorageClass = "Version", v.etag, &size, "STANDARD"
	}
	return d
}

// afterMarker skips what earlier pages held.
func afterMarker(all []versionDoc, key, id string) []versionDoc {
	for i, v := range all {
		if v.Key > key {
			return all[i:]
		}
		if v.Key == key && id != "" && v.VersionId == id {
			return all[i+1:]
		}
	}
	return nil
}
