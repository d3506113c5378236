package s3test

import (
	"encoding/xml"
	"net/http"
	"strings"
	"time"
)

// kept are the headers of a PUT that a GET returns again.
var kept = []string{"Content-Type", "Content-Encoding", "Content-Disposition", "Content-Language", "Cache-Control", "Expires"}

// headersOf takes the metadata of a PUT; "aws-chunked" is the transfer's, and
// only a server that does not know it keeps it.
func (c *call) headersOf() map[string]string {
	all := map[string]string{}
	for _, name := range kept {
		if v := c.r.Header.Get(name); v != "" {
			all[name] = v
		}
	}
	if !c.s.opts.StoresFraming {
		encoding := strings.Trim(strings.ReplaceAll(all["Content-Encoding"], "aws-chunked", ""), ", ")
		if all["Content-Encoding"] = encoding; encoding == "" {
			delete(all, "Content-Encoding")
		}
	}
	for name, values := range c.r.Header {
		if strings.HasPrefix(name, "X-Amz-Meta-") {
			all[name] = strings.Join(values, ",")
		}
	}
	return all
}

// kmsKey is the key that a new object is encrypted with, "" for none.
func (c *call) kmsKey() string {
	if c.r.Header.Get("x-amz-server-side-encryption") != "aws:kms" {
		return c.b.opts.KMSKey
	}
	if key := c.r.Header.Get("x-amz-server-side-encryption-aws-kms-key-id"); key != "" {
		return key
	}
	if c.b.opts.KMSKey != "" {
		return c.b.opts.KMSKey
	}
	return "arn:aws:kms:" + c.b.opts.Region + ":000000000000:key/default"
}

func (c *call) putObject() error {
	p, err := c.payload()
	if err != nil {
		return err
	}
	v := &version{data: p.data, headers: c.headersOf(), kmsKey: c.kmsKey()}
	if !c.s.opts.NoChecksums {
		if v.sum, err = c.s.proven(p.claim, p.data); err != nil {
			return err
		}
	}
	if err := c.lockFrom(v, p.claim.value != "" || c.r.Header.Get("Content-MD5") != ""); err != nil {
		return err
	}
	v.etag = etagOf(p.data, v.kmsKey)
	if err := c.store(v); err != nil {
		return err
	}
	v.sum.set(c.w.Header())
	c.w.Header().Set("ETag", v.etag)
	c.w.WriteHeader(http.StatusOK)
	return nil
}

// store makes v the newest version of the request's key when its conditions hold.
func (c *call) store(v *version) error {
	v.modified = c.s.now()
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if err := c.conditions(); err != nil {
		return err
	}
	if c.s.opts.FileSystem && c.b.parentIsFile(c.key) {
		return fail(409, "ObjectParentIsFile", "Object parent already exists as a file")
	}
	if c.b.replicates(c.key) {
		v.replication = "PENDING"
	}
	c.s.serial++
	c.b.add(c.key, v, c.s.serial)
	c.versionHeaders(v)
	return nil
}

func (c *call) versionHeaders(v *version) {
	if c.b.versioning != "" {
		c.w.Header().Set("x-amz-version-id", v.id)
	}
	if v.kmsKey != "" {
		c.w.Header().Set("x-amz-server-side-encryption", "aws:kms")
		c.w.Header().Set("x-amz-server-side-encryption-aws-kms-key-id", v.kmsKey)
	} else {
		c.w.Header().Set("x-amz-server-side-encryption", "AES256")
	}
}

// conditions judges the If-headers of a write. What came since the request
// began is a conflict (409), what was there before an unmet condition (412).
func (c *call) conditions() error {
	if c.s.opts.NoConditions {
		return nil
	}
	have := c.b.latest(c.key)
	there := have != nil && !have.marker
	since := have != nil && have.change > c.began
	match, none := c.r.Header.Get("If-Match"), c.r.Header.Get("If-None-Match")
	switch {
	case none != "" && none != "*":
		return notImplemented("If-None-Match with a value other than *")
	case match != "" && !there && !since:
		return fail(404, "NoSuchKey", "The specified key does not exist.").with("Key", c.key)
	case (none != "" && !there) || (match == "" && none == "") || (match != "" && there && sameETag(match, have.etag)):
		return nil
	case since:
		return fail(409, "ConditionalRequestConflict", "The conditional request cannot succeed due to a conflicting operation against this resource.").with("Key", c.key)
	case none != "":
		return unmet("If-None-Match")
	}
	return unmet("If-Match")
}

func unmet(condition string) error {
	return fail(412, "PreconditionFailed", "At least one of the pre-conditions you specified did not hold").with("Condition", condition)
}

func sameETag(a, b string) bool { return strings.Trim(a, `"`) == strings.Trim(b, `"`) }

// look finds the version that a GET or HEAD asks for and judges its conditions.
func (c *call) look() (version, error) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	v, err := c.b.find(c.key, c.query.Get("versionId"))
	if err != nil {
		return version{}, err
	}
	if match := c.r.Header.Get("If-Match"); match != "" && match != "*" && !sameETag(match, v.etag) {
		return version{}, unmet("If-Match")
	}
	if none := c.r.Header.Get("If-None-Match"); none != "" && (none == "*" || sameETag(none, v.etag)) {
		return version{}, fail(304, "NotModified", "Not Modified").header("ETag", v.etag)
	}
	return *v, nil
}

func (c *call) headObject() error { return c.deliver(false) }
func (c *call) getObject() error  { return c.deliver(true) }

// deliver answers GET and HEAD: the whole, a range, or one part.
func (c *call) deliver(body bool) error {
	v, err := c.look()
	if err != nil {
		return err
	}
	s, err := c.slice(&v)
	if err != nil {
		return err
	}
	h := c.w.Header()
	for name, value := range v.headers {
		h.Set(name, value)
	}
	h.Set("ETag", v.etag)
	h.Set("Last-Modified", v.modified.Format(http.TimeFormat))
	h.Set("Accept-Ranges", "bytes")
	setNonEmpty(h, "x-amz-replication-status", v.replication)
	setNonEmpty(h, "x-amz-object-lock-mode", v.lockMode)
	if v.lockMode != "" {
		h.Set("x-amz-object-lock-retain-until-date", v.lockUntil.Format(stamp))
	}
	c.versionHeaders(&v)
	if strings.EqualFold(c.r.Header.Get("x-amz-checksum-mode"), "ENABLED") {
		s.sum.set(h)
	}
	s.headers(h, int64(len(v.data)))
	c.w.WriteHeader(s.status)
	if body {
		c.w.Write(v.data[s.from:s.to])
	}
	return nil
}

func setNonEmpty(h http.Header, name, value string) {
	if value != "" {
		h.Set(name, value)
	}
}

func (c *call) deleteObject() error {
	now := c.s.now()
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if match := c.r.Header.Get("If-Match"); match != "" && !c.s.opts.NoConditions {
		have := c.b.latest(c.key)
		if have == nil || have.marker || (match != "*" && !sameETag(match, have.etag)) {
			return unmet("If-Match")
		}
	}
	bypass := c.r.Header.Get("x-amz-bypass-governance-retention") == "true"
	done, err := c.erase(c.key, c.query.Get("versionId"), now, bypass)
	if err != nil {
		return err
	}
	setNonEmpty(c.w.Header(), "x-amz-version-id", done.version)
	if done.marker {
		c.w.Header().Set("x-amz-delete-marker", "true")
	}
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

// erased says what a delete did.
type erased struct {
	version string
	marker  bool
}

// erase removes one version, or without a version id hides or removes the key.
// The caller holds the lock.
func (c *call) erase(key, id string, now time.Time, bypass bool) (erased, error) {
	if id == "" && c.b.versioning != "" {
		c.s.serial++
		v := &version{marker: true, modified: now}
		c.b.add(key, v, c.s.serial)
		return erased{v.id, true}, nil
	}
	if id == "" {
		id = nullVersion
	}
	for _, v := range c.b.objects[key] {
		if v.id != id {
			continue
		}
		if err := v.locked(now, bypass); err != nil {
			return erased{}, err
		}
		c.b.drop(key, id)
		return erased{v.id, v.marker}, nil
	}
	return erased{}, nil
}

type deletedDoc struct {
	Key                   string
	VersionId             string `xml:",omitempty"`
	DeleteMarker          bool   `xml:",omitempty"`
	DeleteMarkerVersionId string `xml:",omitempty"`
}

type refusedDoc struct{ Key, VersionId, Code, Message string }

func (c *call) deleteObjects() error {
	var doc struct {
		Object []struct{ Key, VersionId, ETag string }
		Quiet  bool
	}
	if err := c.document(&doc); err != nil {
		return err
	}
	if len(doc.Object) == 0 || len(doc.Object) > maxPage {
		return fail(400, "MalformedXML", "between 1 and 1000 keys may be deleted in one request")
	}
	var answer struct {
		XMLName xml.Name     `xml:"DeleteResult"`
		Deleted []deletedDoc `xml:",omitempty"`
		Error   []refusedDoc `xml:",omitempty"`
	}
	now, bypass := c.s.now(), c.r.Header.Get("x-amz-bypass-governance-retention") == "true"
	c.s.mu.Lock()
	for _, o := range doc.Object {
		done, err := c.eraseOne(o.Key, o.VersionId, o.ETag, now, bypass)
		if f, ok := err.(*failure); ok {
			answer.Error = append(answer.Error, refusedDoc{o.Key, o.VersionId, f.code, f.message})
		} else if !doc.Quiet {
			d := deletedDoc{Key: o.Key, VersionId: o.VersionId, DeleteMarker: done.marker}
			if done.marker {
				d.DeleteMarkerVersionId = done.version
			}
			answer.Deleted = append(answer.Deleted, d)
		}
	}
	c.s.mu.Unlock()
	return c.xml(answer)
}

// eraseOne is erase with the checks that a key of DeleteObjects gets by itself.
func (c *call) eraseOne(key, id, etag string, now time.Time, bypass bool) (erased, error) {
	if c.b.denies("DeleteObject", key, "") || c.b.denies("DeleteObjects", key, "") {
		return erased{}, fail(403, "AccessDenied", "Access Denied")
	}
	if v := c.b.latest(key); etag != "" && (v == nil || v.marker || !sameETag(etag, v.etag)) {
		return erased{}, unmet("ETag")
	}
	return c.erase(key, id, now, bypass)
}
