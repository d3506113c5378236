package s3test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	amzTime  = "20060102T150405Z"
	maxSkew  = 15 * time.Minute
	sigStart = "AWS4-HMAC-SHA256"
)

// signature is what the Authorization header says, and the key that it was made with.
type signature struct {
	region, scope string
	time          string
	key           []byte
	value         string
}

// authenticate checks who signed a request, when, and over what.
func (s *Server) authenticate(r *http.Request) (signature, error) {
	access, scope, signed, value, ok := parseAuthorization(r.Header.Get("Authorization"))
	if !ok {
		return signature{}, fail(403, "AccessDenied", "Access Denied: the request is not signed with %s", sigStart)
	}
	if err := s.checkIdentity(access, r); err != nil {
		return signature{}, err
	}
	at, err := time.Parse(amzTime, r.Header.Get("x-amz-date"))
	if err != nil || len(scope) != 4 || scope[0] != at.Format("20060102") {
		return signature{}, fail(403, "AccessDenied", "AWS authentication requires a valid Date or x-amz-date header")
	}
	if now := s.now(); now.Sub(at).Abs() > maxSkew {
		return signature{}, fail(403, "RequestTimeTooSkewed", "The difference between the request time and the current time is too large.").
			with("RequestTime", at.Format(amzTime)).with("ServerTime", now.Format(time.RFC3339)).with("MaxAllowedSkewMilliseconds", "900000")
	}
	sig := signature{region: scope[1], scope: strings.Join(scope, "/"), time: r.Header.Get("x-amz-date"), value: value}
	sig.key = signingKey(s.opts.SecretKey, scope)
	request := sha256.Sum256([]byte(canonical(r, signed)))
	if sig.over(hex.EncodeToString(request[:])) != value {
		return sig, fail(403, "SignatureDoesNotMatch", "The request signature we calculated does not match the signature you provided. Check your key and signing method.")
	}
	return sig, nil
}

func (s *Server) checkIdentity(access string, r *http.Request) error {
	s.mu.Lock()
	expired := s.expired
	s.mu.Unlock()
	switch {
	case access != s.opts.AccessKey:
		return fail(403, "InvalidAccessKeyId", "The AWS Access Key Id you provided does not exist in our records.")
	case expired:
		return fail(400, "ExpiredToken", "The provided token has expired.")
	case r.Header.Get("x-amz-security-token") != s.opts.SessionToken:
		return fail(400, "InvalidToken", "The provided token is malformed or otherwise invalid.")
	}
	return nil
}

// parseAuthorization takes the header apart.
func parseAuthorization(h string) (access string, scope, signed []string, value string, ok bool) {
	rest, ok := strings.CutPrefix(h, sigStart+" ")
	if !ok {
		return "", nil, nil, "", false
	}
	for field := range strings.SplitSeq(rest, ",") {
		name, v, _ := strings.Cut(strings.TrimSpace(field), "=")
		switch name {
		case "Credential":
			access, v, _ = strings.Cut(v, "/")
			scope = strings.Split(v, "/")
		case "SignedHeaders":
			signed = strings.Split(v, ";")
		case "Signature":
			value = v
		}
	}
	return access, scope, signed, value, access != "" && value != "" && slices.Contains(signed, "host")
}

// over signs the hash of a canonical request.
func (s signature) over(hash string) string {
	return s.sign(strings.Join([]string{sigStart, s.time, s.scope, hash}, "\n"))
}

func (s signature) sign(text string) string { return hex.EncodeToString(mac(s.key, text)) }

func signingKey(secret string, scope []string) []byte {
	key := []byte("AWS4" + secret)
	for _, part := range scope {
		key = mac(key, part)
	}
	return key
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

// canonical is the canonical request, with the path encoded from its decoded
// bytes: a client that leaves a "+" bare has signed another one.
func canonical(r *http.Request, signed []string) string {
	var headers strings.Builder
	for _, name := range signed {
		headers.WriteString(name + ":" + headerValue(r, name) + "\n")
	}
	return strings.Join([]string{r.Method, strictEscape(r.URL.Path, true), canonicalQuery(r.URL.RawQuery), headers.String(),
		strings.Join(signed, ";"), r.Header.Get("x-amz-content-sha256")}, "\n")
}

func headerValue(r *http.Request, name string) string {
	switch name {
	case "host":
		return r.Host
	case "content-length":
		return strconv.FormatInt(r.ContentLength, 10)
	}
	values := slices.Clone(r.Header.Values(name))
	for i, v := range values {
		values[i] = strings.Join(strings.Fields(v), " ")
	}
	return strings.Join(values, ",")
}

func canonicalQuery(raw string) string {
	var pairs []string
	for pair := range strings.SplitSeq(raw, "&") {
		if pair == "" {
			continue
		}
		name, value, _ := strings.Cut(pair, "=")
		n, _ := url.QueryUnescape(name)
		v, _ := url.QueryUnescape(value)
		pairs = append(pairs, strictEscape(n, false)+"="+strictEscape(v, false))
	}
	slices.Sort(pairs)
	return strings.Join(pairs, "&")
}

// strictEscape encodes every byte that is not unreserved.
func strictEscape(text string, slash bool) string {
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(text) {
		c := text[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("-_.~", c) >= 0, slash && c == '/':
			b.WriteByte(c)
		default:
			b.Write([]byte{'%', digits[c>>4], digits[c&15]})
		}
	}
	return b.String()
}
