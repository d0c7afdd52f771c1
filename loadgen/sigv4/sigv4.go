// Package sigv4 signs S3 requests with AWS Signature Version 4. A signature needs only two hashes and an HMAC.
//
// The available signers (AWS SDK, minio-go) need a net/http request, and take several times as long as the rest of an
// operation here. The test of this package compares it with the signer of the AWS SDK. "Signature Version 4 signing
// process" in the AWS General Reference defines the signature.
package sigv4

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"time"
)

// Unsigned is the value for a body that is not hashed. Empty is the SHA-256 of an empty body.
const (
	Unsigned = "UNSIGNED-PAYLOAD"
	Empty    = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
)

const algorithm = "AWS4-HMAC-SHA256"

// Signer signs requests of one account in one region. It caches the key of the day and the date of the second, and is not
// safe for concurrent use.
type Signer struct {
	Access, Secret, Token, Region string

	second  int64
	date    []byte // 20260102T030405Z
	scope   []byte // 20260102/region/s3/aws4_request
	mac     hash.Hash
	sum     hash.Hash
	text    []byte
	headers string // names of the signed headers
}

// Append appends the header lines that sign a request, each with its CRLF: date, hash of the body, token,
// authorization.
//
// path is escaped, query is canonical (sorted, escaped, "" for none), payload is the hex SHA-256 of the body, Unsigned
// or Empty.
func (s *Signer) Append(dst []byte, now time.Time, method, host string, path []byte, query, payload string) []byte {
	if second := now.Unix(); second != s.second {
		s.tick(now.UTC(), second)
	}
	t := append(s.text[:0], method...)
	t = append(append(t, '\n'), path...)
	t = append(append(append(t, '\n'), query...), "\nhost:"...)
	t = append(append(t, host...), "\nx-amz-content-sha256:"...)
	t = append(append(t, payload...), "\nx-amz-date:"...)
	t = append(t, s.date...)
	if s.Token != "" {
		t = append(append(t, "\nx-amz-security-token:"...), s.Token...)
	}
	t = append(append(append(t, "\n\n"...), s.headers...), '\n')
	t = append(t, payload...)
	var digest [sha256.Size]byte
	s.sum.Reset()
	s.sum.Write(t)
	s.sum.Sum(digest[:0])

	t = append(append(append(t[:0], algorithm...), '\n'), s.date...)
	t = append(append(append(t, '\n'), s.scope...), '\n')
	t = hex.AppendEncode(t, digest[:])
	s.mac.Reset()
	s.mac.Write(t)
	s.mac.Sum(digest[:0])
	s.text = t

	dst = append(append(dst, "x-amz-date: "...), s.date...)
	dst = append(append(dst, "\r\nx-amz-content-sha256: "...), payload...)
	if s.Token != "" {
		dst = append(append(dst, "\r\nx-amz-security-token: "...), s.Token...)
	}
	dst = append(append(dst, "\r\nAuthorization: "+algorithm+" Credential="...), s.Access...)
	dst = append(append(dst, '/'), s.scope...)
	dst = append(append(dst, ", SignedHeaders="...), s.headers...)
	dst = hex.AppendEncode(append(dst, ", Signature="...), digest[:])
	return append(dst, '\r', '\n')
}

// tick updates the date and, on a new day, the key.
func (s *Signer) tick(now time.Time, second int64) {
	day := string(now.AppendFormat(nil, "20060102"))
	if len(s.date) == 0 || day != string(s.date[:8]) {
		key := []byte("AWS4" + s.Secret)
		for _, part := range []string{day, s.Region, "s3", "aws4_request"} {
			m := hmac.New(sha256.New, key)
			m.Write([]byte(part))
			key = m.Sum(nil)
		}
		s.mac, s.sum = hmac.New(sha256.New, key), sha256.New()
		s.scope = []byte(day + "/" + s.Region + "/s3/aws4_request")
		s.headers = "host;x-amz-content-sha256;x-amz-date"
		if s.Token != "" {
			s.headers += ";x-amz-security-token"
		}
	}
	s.second, s.date = second, now.AppendFormat(s.date[:0], "20060102T150405Z")
}

// Escape appends s, with every character except RFC 3986's unreserved ones (and '/', unless slash is false) as %XX.
func Escape(dst []byte, s string, slash bool) []byte {
	const hexes = "0123456789ABCDEF"
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '.', c == '_', c == '~', c == '/' && slash:
			dst = append(dst, c)
		default:
			dst = append(dst, '%', hexes[c>>4], hexes[c&15])
		}
	}
	return dst
}
