package s3test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// slice is what of an object a request gets.
type slice struct {
	from, to int64 // [from, to)
	status   int
	parts    int // of the object, when one was asked for
	sum      checksum
}

// slice reads the Range header or the partNumber of a request.
func (c *call) slice(v *version) (slice, error) {
	size := int64(len(v.data))
	whole := slice{to: size, status: http.StatusOK, sum: v.sum}
	if c.query.Has("partNumber") {
		return c.partSlice(v)
	}
	value := c.r.Header.Get("Range")
	spec, ok := strings.CutPrefix(value, "bytes=")
	if value == "" || !ok || strings.Contains(spec, ",") {
		return whole, nil
	}
	from, to, ok := parseRange(spec, size)
	if !ok {
		return whole, fail(416, "InvalidRange", "The requested range is not satisfiable").
			with("RangeRequested", value).with("ActualObjectSize", strconv.FormatInt(size, 10)).
			header("Content-Range", fmt.Sprintf("bytes */%d", size))
	}
	return slice{from: from, to: to, status: http.StatusPartialContent}, nil
}

// parseRange reads "first-last", "first-" or "-count".
func parseRange(spec string, size int64) (from, to int64, ok bool) {
	first, last, ok := strings.Cut(spec, "-")
	if !ok {
		return 0, 0, false
	}
	if first == "" {
		n, err := strconv.ParseInt(last, 10, 64)
		return max(size-n, 0), size, err == nil && n > 0 && size > 0
	}
	from, err := strconv.ParseInt(first, 10, 64)
	if err != nil || from < 0 || from >= size {
		return 0, 0, false
	}
	if last == "" {
		return from, size, true
	}
	end, err := strconv.ParseInt(last, 10, 64)
	return from, min(end+1, size), err == nil && end >= from
}

// partSlice finds one part; an object in one piece is its own part 1.
func (c *call) partSlice(v *version) (slice, error) {
	n, err := strconv.Atoi(c.query.Get("partNumber"))
	if err != nil || n < 1 {
		return slice{}, fail(400, "InvalidArgument", "Part number must be an integer between 1 and 10000, inclusive")
	}
	s := slice{to: int64(len(v.data)), status: http.StatusPartialContent, sum: v.sum}
	if len(v.parts) == 0 {
		if n != 1 {
			return s, fail(416, "InvalidPartNumber", "The requested partnumber is not satisfiable").with("ActualPartCount", "1")
		}
		return s, nil
	}
	s.parts, s.to = len(v.parts), 0
	if n > len(v.parts) {
		return s, fail(416, "InvalidPartNumber", "The requested partnumber is not satisfiable").with("ActualPartCount", strconv.Itoa(len(v.parts)))
	}
	for _, p := range v.parts[:n] {
		s.from, s.to, s.sum = s.to, s.to+p.size, p.sum
	}
	if s.sum.kind = v.sum.kind; c.s.opts.NoPartChecksums {
		s.sum = checksum{}
	}
	return s, nil
}

func (s slice) headers(h http.Header, size int64) {
	h.Set("Content-Length", strconv.FormatInt(s.to-s.from, 10))
	if s.status == http.StatusPartialContent && size > 0 {
		h.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", s.from, s.to-1, size))
	}
	if s.parts > 0 {
		h.Set("x-amz-mp-parts-count", strconv.Itoa(s.parts))
	}
}
