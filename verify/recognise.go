package verify

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"path"
	"regexp"
	"strconv"
	"strings"

	"drkit/internal/store"
	"drkit/manifest/digest"
)

// recognisable is up to how many bytes of an object are read to say what became
// of it, and maxRecognised how many objects of one place.
const (
	recognisable  = 1 << 20
	maxRecognised = 64
)

// recognise says what became of an object of another size, where that can be
// seen. The verdict does not need it, so a place that cannot be read now is no
// error here.
func (g *Gap) recognise(ctx context.Context, want, got *side) {
	if got.object.Size == 0 || got.place.recognised.Add(1) > maxRecognised {
		return
	}
	head, err := headOf(ctx, got.place.Store, got.object)
	if err != nil {
		return
	}
	got.place.read.Add(int64(len(head)))
	if f, ok := Recognise(g.Subject, head, got.object.Size, want.object.Size, want.rightly(ctx)); ok {
		g.Why, g.Hint = g.Why+": "+f.What, f.Hint
	}
}

// headOf reads as much of an object as Recognise looks at.
func headOf(ctx context.Context, s store.Source, o store.Object) ([]byte, error) {
	r, err := s.Open(ctx, o, 0, min(o.Size, recognisable))
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(io.LimitReader(r, recognisable))
}

// RecogniseAt is Recognise of an object in a store. An object that has the size it
// should have, or cannot be read, is not recognised.
func RecogniseAt(ctx context.Context, s store.Source, o store.Object, name string, wantSize int64, want []store.Sum) (Framing, bool) {
	if o.Size == wantSize || o.Size == 0 {
		return Framing{}, false
	}
	head, err := headOf(ctx, s, o)
	if err != nil {
		return Framing{}, false
	}
	return Recognise(name, head, o.Size, wantSize, want)
}

// rightly are checksums to recognise the right bytes by: a small file in a place
// that holds none is read for them.
func (s *side) rightly(ctx context.Context) []store.Sum {
	if s.place == nil || len(s.statements()) > 0 || s.object.Size > recognisable {
		return s.sums
	}
	sums, err := s.place.hash(ctx, s.object, []string{digest.SHA256}, nil)
	if err != nil {
		return s.sums // there is a verdict without them
	}
	return sums
}

// Framing is what a transfer made of a file.
type Framing struct{ What, Hint string }

// Recognise says what became of a file on its way, from its first bytes: the
// framing of a chunked upload or a compression left in place, line ends
// converted, an error page or a pointer saved instead. head is the beginning of
// the file, all of it when it has size bytes; want are the size and checksums of
// what it should be. It reports false when it sees nothing of that kind.
func Recognise(name string, head []byte, size, wantSize int64, want []store.Sum) (Framing, bool) {
	e := intended{wantSize, want}
	whole := int64(len(head)) == size
	for _, look := range []func(name string, head []byte, whole bool, e intended) (Framing, bool){chunked, compressed, lineEnds, pointer, page} {
		if f, ok := look(name, head, whole, e); ok {
			return f, true
		}
	}
	return Framing{}, false
}

// intended is what one file should be.
type intended struct {
	size int64
	sums []store.Sum
}

// is reports whether what r gives is proven to be the expected bytes.
func (e intended) is(r io.Reader) bool {
	have, n, err := digest.Read(io.LimitReader(r, e.size+1), e.size, digest.Options{})
	if err != nil || n != e.size {
		return false
	}
	proven := false
	for _, s := range e.sums {
		if hex, ok := have[s.Algorithm]; ok && s.Parts == 0 {
			if hex != s.Hex {
				return false
			}
			proven = true
		}
	}
	return proven
}

// inside says how sure it is that the right bytes are within.
func (e intended) inside(r io.Reader) string {
	if e.is(r) {
		return "the right content is inside"
	}
	return "what is inside was not compared, or is not the right content either"
}

const chunkedHint = "set checksums: when-required for this region, so that bodies are sent plain, and replicate it again"

// chunked recognises the framing of aws-chunked uploads, which a server that does
// not know it stores as part of the object.
func chunked(_ string, head []byte, whole bool, e intended) (Framing, bool) {
	const what = "chunked upload framing is stored in the object"
	if whole {
		content, ok := unchunk(head)
		if !ok {
			return Framing{}, false
		}
		return Framing{what + "; " + e.inside(bytes.NewReader(content)), chunkedHint}, true
	}
	n, _, ok := chunkHeader(head)
	return Framing{"it begins as if " + what, chunkedHint}, ok && n > 0 && n <= e.size
}

var chunkLine = regexp.MustCompile(`^([0-9a-fA-F]{1,16})(;chunk-signature=[0-9a-f]{64})?\r\n`)

// chunkHeader reads the line before a chunk: its size and the line's length.
func chunkHeader(data []byte) (n int64, line int, ok bool) {
	m := chunkLine.FindSubmatch(data[:min(len(data), 256)])
	if m == nil {
		return 0, 0, false
	}
	n, err := strconv.ParseInt(string(m[1]), 16, 64)
	return n, len(m[0]), err == nil
}

var trailer = regexp.MustCompile(`^(x-amz-[a-z0-9-]+:[^\r\n]*\r\n)*(\r\n)?$`)

// unchunk takes the framing off.
func unchunk(data []byte) ([]byte, bool) {
	var content []byte
	for {
		n, line, ok := chunkHeader(data)
		if !ok || n > int64(len(data)-line) {
			return nil, false
		}
		data = data[line:]
		if n == 0 {
			return content, trailer.Match(data) && content != nil
		}
		content = append(content, data[:n]...)
		if data = data[n:]; !bytes.HasPrefix(data, []byte("\r\n")) {
			return nil, false
		}
		data = data[2:]
	}
}

// compressed recognises a gzip around the file, left on by a proxy or an upload
// with a content encoding.
func compressed(name string, head []byte, whole bool, e intended) (Framing, bool) {
	if !bytes.HasPrefix(head, []byte{0x1f, 0x8b, 8}) || strings.HasSuffix(name, ".gz") || strings.HasSuffix(name, ".tgz") {
		return Framing{}, false
	}
	f := Framing{"a gzip is stored in place of the file", "upload it without a content encoding, and replicate it again"}
	if whole {
		if z, err := gzip.NewReader(bytes.NewReader(head)); err == nil {
			f.What += "; " + e.inside(io.LimitReader(z, 64*recognisable))
		}
	}
	return f, true
}

// lineEnds recognises a conversion of line ends or a byte order mark, where
// undoing it gives the right bytes.
func lineEnds(_ string, head []byte, whole bool, e intended) (Framing, bool) {
	if !whole {
		return Framing{}, false
	}
	const hint = "copy it as it is, without a text mode or an editor in between, and replicate it again"
	unix := bytes.ReplaceAll(head, []byte("\r\n"), []byte("\n"))
	for what, undone := range map[string][]byte{
		"its line ends were converted to CRLF": unix,
		"its line ends were converted to LF":   bytes.ReplaceAll(unix, []byte("\n"), []byte("\r\n")),
		"a byte order mark was put before it":  bytes.TrimPrefix(head, []byte("\xef\xbb\xbf")),
	} {
		if int64(len(undone)) == e.size && e.is(bytes.NewReader(undone)) {
			return Framing{what, hint}, true
		}
	}
	return Framing{}, false
}

// pointer recognises what git keeps in place of a large file.
func pointer(_ string, head []byte, whole bool, _ intended) (Framing, bool) {
	return Framing{"a Git LFS pointer is stored in place of the file", "fetch the file itself (git lfs pull), and upload that"},
		whole && bytes.HasPrefix(head, []byte("version https://git-lfs.github.com/spec/v1\n"))
}

// page recognises an HTML page or an XML error of a store saved as the file.
func page(name string, head []byte, _ bool, _ intended) (Framing, bool) {
	const hint = "something answered the download with a page of its own: look at what it says, and copy the file again"
	text := strings.ToLower(string(bytes.TrimSpace(head[:min(len(head), 1024)])))
	markup := strings.Contains(".html .htm .xml .svg .xhtml", strings.ToLower(path.Ext(name))) && path.Ext(name) != ""
	switch {
	case markup:
	case strings.HasPrefix(text, "<!doctype html"), strings.HasPrefix(text, "<html"):
		return Framing{"an HTML page is stored in place of the file", hint}, true
	case strings.HasPrefix(text, "<?xml") && strings.Contains(text, "<error>"), strings.HasPrefix(text, "<error>"):
		return Framing{fmt.Sprintf("an XML error %sis stored in place of the file", errorCode(head)), hint}, true
	}
	return Framing{}, false
}

var codeElement = regexp.MustCompile(`<Code>([A-Za-z]{1,64})</Code>`)

// errorCode is the code that an XML error names.
func errorCode(head []byte) string {
	if m := codeElement.FindSubmatch(head); m != nil {
		return "(" + string(m[1]) + ") "
	}
	return ""
}
