package s3test

import (
	"encoding/xml"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

type objectParts struct {
	PartsCount           int
	PartNumberMarker     int
	NextPartNumberMarker int
	MaxParts             int
	IsTruncated          bool
	Part                 []partDoc `xml:",omitempty"`
}

type attributesDoc struct {
	XMLName      xml.Name     `xml:"GetObjectAttributesResponse"`
	ETag         string       `xml:",omitempty"`
	Checksum     *sumDoc      `xml:",omitempty"`
	ObjectParts  *objectParts `xml:",omitempty"`
	StorageClass string       `xml:",omitempty"`
	ObjectSize   *int64       `xml:",omitempty"`
}

// attributes answers GetObjectAttributes: only what was asked for.
func (c *call) attributes() error {
	if c.s.opts.NoAttributes {
		return notImplemented("GetObjectAttributes")
	}
	v, err := c.look()
	if err != nil {
		return err
	}
	var asked []string
	for _, line := range c.r.Header.Values("x-amz-object-attributes") {
		for name := range strings.SplitSeq(line, ",") {
			asked = append(asked, strings.TrimSpace(name))
		}
	}
	if len(asked) == 0 {
		return fail(400, "InvalidArgument", "x-amz-object-attributes header is missing or invalid")
	}
	doc, err := c.attributesOf(&v, func(name string) bool { return slices.Contains(asked, name) })
	if err != nil {
		return err
	}
	c.w.Header().Set("Last-Modified", v.modified.Format(http.TimeFormat))
	c.s.mu.Lock()
	c.versionHeaders(&v)
	c.s.mu.Unlock()
	return c.xml(doc)
}

func (c *call) attributesOf(v *version, asked func(string) bool) (doc attributesDoc, err error) {
	if asked("ETag") {
		doc.ETag = strings.Trim(v.etag, `"`)
	}
	if asked("Checksum") && v.sum.algorithm != "" {
		sum := sumDocOf(v.sum)
		doc.Checksum = &sum
	}
	if asked("StorageClass") {
		doc.StorageClass = "STANDARD"
	}
	if asked("ObjectSize") {
		size := int64(len(v.data))
		doc.ObjectSize = &size
	}
	if asked("ObjectParts") && len(v.parts) > 0 {
		doc.ObjectParts, err = c.partsOf(v)
	}
	return doc, err
}

// partsOf is one page of an object's parts; those that were uploaded without a
// checksum are only counted, as S3 does.
func (c *call) partsOf(v *version) (*objectParts, error) {
	most, marker := maxPage, 0
	for name, into := range map[string]*int{"x-amz-max-parts": &most, "x-amz-part-number-marker": &marker} {
		text := c.r.Header.Get(name)
		if text == "" {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return nil, fail(400, "InvalidArgument", "%s is not a number", name)
		}
		*into = n
	}
	p := &objectParts{PartsCount: len(v.parts), PartNumberMarker: marker, MaxParts: min(most, maxPage, c.s.opts.PageSize)}
	for _, part := range v.parts {
		if part.number <= marker || part.sum.algorithm == "" || c.s.opts.NoPartChecksums {
			continue
		}
		if p.IsTruncated = len(p.Part) == p.MaxParts; p.IsTruncated {
			break
		}
		sum := sumDocOf(part.sum)
		sum.ChecksumType = ""
		p.Part, p.NextPartNumberMarker = append(p.Part, partDoc{PartNumber: part.number, Size: part.size, sumDoc: sum}), part.number
	}
	return p, nil
}
