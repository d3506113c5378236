package s3test

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// maxBody bounds what one request may send, in bytes.
const maxBody = 5 << 30

const emptySHA256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// payload is a request's body without framing, and the checksum claimed of it.
type payload struct {
	data  []byte
	claim checksum
}

// payload reads and checks the body as far as the transfer goes: framing,
// signature of the content, Content-MD5 and the claimed checksum's form.
func (c *call) payload() (payload, error) {
	raw, err := io.ReadAll(io.LimitReader(c.r.Body, maxBody))
	c.in = int64(len(raw))
	if err != nil {
		return payload{}, fail(400, "IncompleteBody", "You did not provide the number of bytes specified by the Content-Length HTTP header")
	}
	data, trailer, err := c.unframe(raw)
	if err != nil {
		return payload{}, err
	}
	if err := checkMD5(c.r.Header, data); err != nil || c.s.opts.NoChecksums {
		return payload{data: data}, err
	}
	claim, err := claimOf(c.r.Header, trailer)
	return payload{data, claim}, err
}

// unframe checks the hash of a plain body, or decodes aws-chunked.
func (c *call) unframe(raw []byte) ([]byte, http.Header, error) {
	hash := c.r.Header.Get("x-amz-content-sha256")
	if !strings.HasPrefix(hash, "STREAMING-") {
		got := sha256.Sum256(raw)
		if hash != "UNSIGNED-PAYLOAD" && hash != hex.EncodeToString(got[:]) {
			return nil, nil, fail(400, "XAmzContentSHA256Mismatch", "The provided 'x-amz-content-sha256' header does not match what was computed.")
		}
		return raw, nil, nil
	}
	if c.s.opts.StoresFraming {
		return raw, nil, nil
	}
	d := &chunked{r: bufio.NewReader(bytes.NewReader(raw)), sig: c.sig, previous: c.sig.value, signed: strings.HasPrefix(hash, "STREAMING-AWS4")}
	data, trailer, err := d.decode(strings.HasSuffix(hash, "-TRAILER"))
	if err != nil {
		return nil, nil, err
	}
	if want := c.r.Header.Get("x-amz-decoded-content-length"); want != strconv.Itoa(len(data)) {
		return nil, nil, fail(400, "IncompleteBody", "The decoded body has %d bytes, x-amz-decoded-content-length says %q", len(data), want)
	}
	return data, trailer, nil
}

// chunked decodes aws-chunked: "SIZE[;chunk-signature=…]", data, …, "0", trailer.
type chunked struct {
	r        *bufio.Reader
	sig      signature
	previous string // signature of the chunk before
	signed   bool
}

var errFraming = errors.New("malformed chunk")

func (d *chunked) decode(withTrailer bool) ([]byte, http.Header, error) {
	var all bytes.Buffer
	for {
		chunk, err := d.next()
		if errors.Is(err, errFraming) {
			return nil, nil, fail(400, "InvalidChunkSizeError", "The body is not well-formed aws-chunked.")
		}
		if err != nil {
			return nil, nil, err
		}
		if len(chunk) == 0 {
			break
		}
		all.Write(chunk)
	}
	if !withTrailer {
		return all.Bytes(), nil, nil
	}
	trailer, err := d.trailer()
	return all.Bytes(), trailer, err
}

// next returns the next chunk's data, empty for the last.
func (d *chunked) next() ([]byte, error) {
	line, err := d.line()
	if err != nil {
		return nil, err
	}
	size, extension, _ := strings.Cut(line, ";")
	n, err := strconv.ParseUint(size, 16, 31)
	if err != nil {
		return nil, errFraming
	}
	var b bytes.Buffer
	if _, err := io.CopyN(&b, d.r, int64(n)); err != nil {
		return nil, errFraming
	}
	if d.signed {
		if err := d.verify(strings.TrimPrefix(extension, "chunk-signature="), b.Bytes()); err != nil {
			return nil, err
		}
	}
	if n == 0 {
		return nil, nil
	}
	if end, err := d.line(); err != nil || end != "" {
		return nil, errFraming
	}
	return b.Bytes(), nil
}

func (d *chunked) line() (string, error) {
	line, err := d.r.ReadString('\n')
	text, ok := strings.CutSuffix(line, "\r\n")
	if err != nil || !ok {
		return "", errFraming
	}
	return text, nil
}

// verify checks one chunk's signature, which covers the one before.
func (d *chunked) verify(got string, data []byte) error {
	hash := sha256.Sum256(data)
	text := []string{sigStart + "-PAYLOAD", d.sig.time, d.sig.scope, d.previous, emptySHA256, hex.EncodeToString(hash[:])}
	d.previous = d.sig.sign(strings.Join(text, "\n"))
	if got != d.previous {
		return fail(403, "SignatureDoesNotMatch", "The signature of a chunk does not match.")
	}
	return nil
}

// trailer reads the lines after the last chunk.
func (d *chunked) trailer() (http.Header, error) {
	trailer := http.Header{}
	var signedText strings.Builder
	for {
		line, err := d.line()
		if err != nil || line == "" {
			break
		}
		name, value, _ := strings.Cut(line, ":")
		trailer.Set(name, strings.TrimSpace(value))
		if !strings.EqualFold(name, "x-amz-trailer-signature") {
			signedText.WriteString(strings.ToLower(name) + ":" + strings.TrimSpace(value) + "\n")
		}
	}
	if !d.signed {
		return trailer, nil
	}
	hash := sha256.Sum256([]byte(signedText.String()))
	text := []string{sigStart + "-TRAILER", d.sig.time, d.sig.scope, d.previous, hex.EncodeToString(hash[:])}
	if trailer.Get("x-amz-trailer-signature") != d.sig.sign(strings.Join(text, "\n")) {
		return nil, fail(403, "SignatureDoesNotMatch", "The signature of the trailer does not match.")
	}
	return trailer, nil
}
