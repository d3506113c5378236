package s3test

import (
	"encoding/xml"
	"fmt"
	"net/http"
)

// failure is an error answer of S3.
type failure struct {
	status        int
	code, message string
	fields        [][2]string // further elements of the document
	headers       [][2]string
}

func fail(status int, code, format string, args ...any) *failure {
	return &failure{status: status, code: code, message: fmt.Sprintf(format, args...)}
}

func (f *failure) Error() string { return f.code + ": " + f.message }

func (f *failure) with(name, value string) *failure {
	f.fields = append(f.fields, [2]string{name, value})
	return f
}

func (f *failure) header(name, value string) *failure {
	f.headers = append(f.headers, [2]string{name, value})
	return f
}

// write answers with the failure; a HEAD gets the status alone.
func (f *failure) write(w http.ResponseWriter, r *http.Request) {
	for _, h := range f.headers {
		w.Header().Set(h[0], h[1])
	}
	if f.status == http.StatusNotModified || r.Method == http.MethodHead {
		w.WriteHeader(f.status)
		return
	}
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(f.status)
	f.document(w)
}

// document writes the error as XML.
func (f *failure) document(w http.ResponseWriter) {
	fmt.Fprint(w, xml.Header+"<Error>")
	for _, field := range append([][2]string{{"Code", f.code}, {"Message", f.message}}, f.fields...) {
		fmt.Fprintf(w, "<%s>", field[0])
		xml.EscapeText(w, []byte(field[1]))
		fmt.Fprintf(w, "</%s>", field[0])
	}
	fmt.Fprint(w, "<RequestId>0000000000000000</RequestId><HostId>s3test</HostId></Error>")
}

func notImplemented(what string) *failure {
	return fail(501, "NotImplemented", "A header or query you provided implies functionality that is not implemented: %s", what)
}
