package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// maxDocument is the greatest answer in bytes that is read into memory: a page of
// a thousand keys, each of 1,024 bytes that take three in a URL, has about 4 MiB.
const maxDocument = 8 << 20

var errLarge = fmt.Errorf("the answer has more than %d bytes, which no page of a bucket has", maxDocument)

// watched breaks off requests that stand still. The library's transport waits for
// the beginning of an answer only, and that only once the whole request was taken.
type watched struct {
	aws.HTTPClient
	stall time.Duration // between two bytes of an answer
}

// Do sends the request. The body of an object is watched by its reader, which
// knows how to go on; what a server says in place of one is an answer as any other.
func (w watched) Do(r *http.Request) (*http.Response, error) {
	begin, stall := headerTimeout, w.stall
	if laborious(r) {
		begin, stall = serverTimeout, serverTimeout
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	alarm := time.AfterFunc(begin, func() { cancel(errStalled) })
	defer alarm.Stop()
	sent := r.WithContext(ctx)
	if r.Body != nil && r.Body != http.NoBody {
		sent.Body = &taken{ReadCloser: r.Body, onRead: func() { alarm.Reset(begin) }}
	}
	res, err := w.HTTPClient.Do(sent)
	if err != nil {
		defer cancel(nil)
		return nil, stalled(ctx, err)
	}
	d := &document{ReadCloser: res.Body, ctx: ctx, cancel: cancel, left: -1}
	if r.URL.Query().Get("x-id") != "GetObject" || res.StatusCode >= http.StatusMultipleChoices {
		d.stall, d.left = stall, maxDocument
	}
	res.Body = d
	return res, nil
}

// laborious reports whether the server copies or assembles before it answers.
func laborious(r *http.Request) bool {
	return r.Header.Get("x-amz-copy-source") != "" || (r.Method == http.MethodPost && r.URL.Query().Has("uploadId"))
}

// taken tells each time that the transport wants more of a request's body.
type taken struct {
	io.ReadCloser
	onRead func()
}

func (t *taken) Read(p []byte) (int, error) {
	t.onRead()
	return t.ReadCloser.Read(p)
}

// document is the body of an answer.
type document struct {
	io.ReadCloser
	ctx    context.Context
	cancel context.CancelCauseFunc
	stall  time.Duration // 0: not watched
	left   int64         // bytes that may still come; -1: any number
	err    error
}

// Read reads on, and ends with an error where nothing comes or too much.
func (d *document) Read(p []byte) (int, error) {
	if d.err != nil { // the library reads on to the end, whatever it was told
		return 0, d.err
	}
	if d.stall > 0 {
		alarm := time.AfterFunc(d.stall, func() { d.cancel(errStalled) })
		defer alarm.Stop()
	}
	n, err := d.ReadCloser.Read(p)
	if d.left >= 0 {
		if d.left -= int64(n); d.left < 0 {
			d.err = errLarge
			return 0, d.err
		}
	}
	return n, stalled(d.ctx, err)
}

// Close ends the request.
func (d *document) Close() error {
	defer d.cancel(nil)
	return d.ReadCloser.Close()
}

// stalled is err, or why the request was broken off.
func stalled(ctx context.Context, err error) error {
	if err != nil && !errors.Is(err, io.EOF) && errors.Is(context.Cause(ctx), errStalled) {
		return errStalled
	}
	return err
}
