package s3test

import (
	"encoding/xml"
	"net/http"
	"slices"
	"strings"
	"time"
)

// stamp is S3's time in documents.
const stamp = "2006-01-02T15:04:05.000Z"

func (c *call) listBuckets() error {
	type line struct{ Name, CreationDate, BucketRegion string }
	var doc struct {
		XMLName xml.Name `xml:"ListAllMyBucketsResult"`
		Owner   struct{ ID string }
		Buckets struct{ Bucket []line }
	}
	doc.Owner.ID = "owner"
	c.s.mu.Lock()
	for _, b := range c.s.buckets {
		doc.Buckets.Bucket = append(doc.Buckets.Bucket, line{b.name, b.created.Format(stamp), b.opts.Region})
	}
	c.s.mu.Unlock()
	slices.SortFunc(doc.Buckets.Bucket, func(a, b line) int { return strings.Compare(a.Name, b.Name) })
	return c.xml(doc)
}

func (c *call) headBucket() error {
	c.w.Header().Set("x-amz-bucket-region", c.b.opts.Region)
	c.w.WriteHeader(http.StatusOK)
	return nil
}

func (c *call) createBucket() error {
	var doc struct{ LocationConstraint string }
	if c.r.ContentLength != 0 {
		if err := c.document(&doc); err != nil {
			return err
		}
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if _, ok := c.s.buckets[c.bucket]; ok {
		return fail(409, "BucketAlreadyOwnedByYou", "Your previous request to create the named bucket succeeded and you already own it.")
	}
	o := BucketOptions{Region: doc.LocationConstraint, ObjectLock: c.r.Header.Get("x-amz-bucket-object-lock-enabled") == "true"}
	c.s.buckets[c.bucket] = newBucket(c.bucket, o, c.s.opts.Region)
	c.w.Header().Set("Location", "/"+c.bucket)
	c.w.WriteHeader(http.StatusOK)
	return nil
}

func (c *call) bucketLocation() error {
	location := c.b.opts.Region
	if location == "us-east-1" {
		location = "" // as S3 says it
	}
	return c.xml(struct {
		XMLName  xml.Name `xml:"LocationConstraint"`
		Location string   `xml:",chardata"`
	}{Location: location})
}

type versioningDoc struct {
	XMLName xml.Name `xml:"VersioningConfiguration"`
	Status  string   `xml:",omitempty"`
}

func (c *call) getVersioning() error {
	c.s.mu.Lock()
	doc := versioningDoc{Status: c.b.versioning}
	c.s.mu.Unlock()
	return c.xml(doc)
}

func (c *call) putVersioning() error {
	var doc versioningDoc
	if err := c.document(&doc); err != nil {
		return err
	}
	if doc.Status != "Enabled" && doc.Status != "Suspended" {
		return fail(400, "MalformedXML", "Status must be Enabled or Suspended")
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.b.versioning = doc.Status
	c.w.WriteHeader(http.StatusOK)
	return nil
}

// replicationDoc is what the server reads of replication rules.
type replicationDoc struct {
	XMLName xml.Name `xml:"ReplicationConfiguration"`
	Rule    []struct {
		Status, Prefix string
		Filter         struct {
			Prefix string
			And    struct{ Prefix string }
		}
	}
}

// replicates reports whether an enabled rule covers a key.
func (b *bucket) replicates(key string) bool {
	for _, r := range b.rules.Rule {
		if r.Status == "Enabled" && strings.HasPrefix(key, r.Prefix+r.Filter.Prefix+r.Filter.And.Prefix) {
			return true
		}
	}
	return false
}

func (c *call) getReplication() error {
	if c.s.opts.NoReplication {
		return notImplemented("replication")
	}
	c.s.mu.Lock()
	rules := c.b.replication
	c.s.mu.Unlock()
	if rules == nil {
		return fail(404, "ReplicationConfigurationNotFoundError", "The replication configuration was not found")
	}
	c.w.Header().Set("Content-Type", "application/xml")
	_, err := c.w.Write(rules)
	return err
}

func (c *call) putReplication() error {
	if c.s.opts.NoReplication {
		return notImplemented("replication")
	}
	p, err := c.payload()
	if err != nil {
		return err
	}
	var doc replicationDoc
	if xml.Unmarshal(p.data, &doc) != nil || len(doc.Rule) == 0 {
		return fail(400, "MalformedXML", "The XML you provided was not well-formed or did not validate against our published schema")
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if c.b.versioning != "Enabled" {
		return fail(400, "InvalidRequest", "Versioning must be 'Enabled' on the bucket to apply a replication configuration")
	}
	c.b.replication, c.b.rules = p.data, doc
	c.w.WriteHeader(http.StatusOK)
	return nil
}

func (c *call) deleteReplication() error {
	c.s.mu.Lock()
	c.b.replication, c.b.rules = nil, replicationDoc{}
	c.s.mu.Unlock()
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

func (c *call) getLockConfiguration() error {
	if !c.b.opts.ObjectLock {
		return fail(404, "ObjectLockConfigurationNotFoundError", "Object Lock configuration does not exist for this bucket")
	}
	return c.xml(struct {
		XMLName           xml.Name `xml:"ObjectLockConfiguration"`
		ObjectLockEnabled string
	}{ObjectLockEnabled: "Enabled"})
}

// locked says why a version may not be removed.
func (v *version) locked(now time.Time, bypass bool) error {
	kept := v.lockUntil.After(now) && !(bypass && v.lockMode == "GOVERNANCE")
	if v.legalHold || kept {
		return fail(403, "AccessDenied", "Access Denied because object protected by object lock.")
	}
	return nil
}

// lockFrom reads the retention that a PUT asks for.
func (c *call) lockFrom(v *version, claimed bool) error {
	mode, until := c.r.Header.Get("x-amz-object-lock-mode"), c.r.Header.Get("x-amz-object-lock-retain-until-date")
	v.legalHold = c.r.Header.Get("x-amz-object-lock-legal-hold") == "ON"
	if mode == "" && until == "" && !v.legalHold {
		return nil
	}
	switch {
	case !c.b.opts.ObjectLock:
		return fail(400, "InvalidRequest", "Bucket is missing Object Lock Configuration")
	case !claimed:
		return fail(400, "InvalidRequest", "Content-MD5 OR x-amz-checksum- HTTP header is required for Put Object requests with Object Lock parameters")
	case mode == "" && until == "":
		return nil
	}
	return v.retain(mode, until, c.s.now())
}

func (v *version) retain(mode, until string, now time.Time) error {
	at, err := time.Parse(time.RFC3339, until)
	if err != nil || (mode != "GOVERNANCE" && mode != "COMPLIANCE") {
		return fail(400, "InvalidArgument", "The retain until date or the mode of the Object Lock is not valid")
	}
	if !at.After(now) {
		return fail(400, "InvalidArgument", "The retain until date must be in the future!")
	}
	if v.lockMode == "COMPLIANCE" && (mode != "COMPLIANCE" || at.Before(v.lockUntil)) {
		return fail(403, "AccessDenied", "Access Denied because object protected by object lock.")
	}
	v.lockMode, v.lockUntil = mode, at
	return nil
}

type retentionDoc struct {
	XMLName               xml.Name `xml:"Retention"`
	Mode, RetainUntilDate string
}

func (c *call) getRetention() error {
	c.s.mu.Lock()
	v, err := c.b.find(c.key, c.query.Get("versionId"))
	c.s.mu.Unlock()
	if err != nil {
		return err
	}
	if v.lockMode == "" {
		return fail(404, "NoSuchObjectLockConfiguration", "The specified object does not have a ObjectLock configuration")
	}
	return c.xml(retentionDoc{Mode: v.lockMode, RetainUntilDate: v.lockUntil.Format(stamp)})
}

func (c *call) putRetention() error {
	var doc retentionDoc
	if err := c.document(&doc); err != nil {
		return err
	}
	now := c.s.now()
	return c.change(func(v *version) error { return v.retain(doc.Mode, doc.RetainUntilDate, now) })
}

func (c *call) putLegalHold() error {
	var doc struct{ Status string }
	if err := c.document(&doc); err != nil {
		return err
	}
	return c.change(func(v *version) error { v.legalHold = doc.Status == "ON"; return nil })
}

// change alters what is kept of the version that a request names.
func (c *call) change(do func(*version) error) error {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if !c.b.opts.ObjectLock {
		return fail(400, "InvalidRequest", "Bucket is missing Object Lock Configuration")
	}
	v, err := c.b.find(c.key, c.query.Get("versionId"))
	if err != nil {
		return err
	}
	if err := do(v); err != nil {
		return err
	}
	c.w.WriteHeader(http.StatusOK)
	return nil
}
