package faultproxy

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"time"
)

// refusals are the answers of S3 to a request that it does not carry out.
var refusals = map[Kind]struct {
	status        int
	code, message string
}{
	InternalError: {500, "InternalError", "We encountered an internal error. Please try again."},
	SlowDown:      {503, "SlowDown", "Please reduce your request rate."},
	ClockSkew:     {403, "RequestTimeTooSkewed", "The difference between the request time and the current time is too large."},
	Expired:       {400, "ExpiredToken", "The provided token has expired."},
	Temporary:     {307, "TemporaryRedirect", "Please re-send this request to the specified temporary endpoint."},
	Permanent:     {301, "PermanentRedirect", "The bucket you are attempting to access must be addressed using the specified endpoint."},
}

// refuse answers without passing the request on. Its body is read, so that the
// client may use the connection again.
func refuse(w http.ResponseWriter, r *http.Request, rule Rule) {
	io.Copy(io.Discard, r.Body)
	a := refusals[rule.Kind]
	extra := ""
	switch rule.Kind {
	case Temporary:
		w.Header().Set("Location", cmp.Or(rule.Location, "http://"+r.Host+r.URL.RequestURI()))
	case Permanent:
		region := cmp.Or(rule.Region, "eu-west-1")
		w.Header().Set("x-amz-bucket-region", region)
		extra = "<Endpoint>s3." + region + ".amazonaws.com</Endpoint>"
	case ClockSkew:
		extra = "<ServerTime>" + time.Now().Add(time.Hour).UTC().Format(time.RFC3339) + "</ServerTime>"
	}
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(a.status)
	if r.Method != http.MethodHead {
		fmt.Fprintf(w, "%s<Error><Code>%s</Code><Message>%s</Message>%s<RequestId>0</RequestId></Error>", xml.Header, a.code, a.message, extra)
	}
}
