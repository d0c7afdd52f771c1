package sigv4

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// The reference is the signer of the AWS SDK.
func TestAsTheSDK(t *testing.T) {
	noon := time.Date(2026, 2, 3, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name, method, path, query, payload, token string
		at                                        time.Time
	}{
		{"get", "GET", "/bucket/data/0000001", "", Empty, "", noon},
		{"put", "PUT", "/bucket/put/a b+c%/é", "", Unsigned, "", noon.Add(1500 * time.Millisecond)},
		{"token", "GET", "/bucket/x", "", Empty, "a/token+with=signs", noon},
		{"query", "POST", "/bucket/x", "partNumber=3&uploadId=a%2Fb", Unsigned, "", noon},
		{"list", "GET", "/bucket", "list-type=2&prefix=data%2Fa%20b", Empty, "", noon},
		{"next day", "GET", "/bucket/x", "", Empty, "", noon.Add(13 * time.Hour)},
	} {
		signer := Signer{Access: "AKID", Secret: "secret/+key", Token: c.token, Region: "eu-central-2"}
		signer.Append(nil, noon, "GET", "other", []byte("/"), "", Empty) // an earlier request of the same signer
		path := Escape(nil, c.path, true)
		got := string(signer.Append(nil, c.at, c.method, "s3.example.org:9000", path, c.query, c.payload))

		address := "http://s3.example.org:9000" + string(path)
		if c.query != "" {
			address += "?" + c.query
		}
		q, err := http.NewRequest(c.method, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("x-amz-content-sha256", c.payload)
		sdk := v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true })
		keys := aws.Credentials{AccessKeyID: "AKID", SecretAccessKey: "secret/+key", SessionToken: c.token}
		if err := sdk.SignHTTP(context.Background(), keys, q, c.payload, "s3", "eu-central-2", c.at); err != nil {
			t.Fatal(err)
		}
		want := "Authorization: " + strings.ReplaceAll(q.Header.Get("Authorization"), ";content-length", "")
		if lines := strings.Split(got, "\r\n"); lines[len(lines)-2] != want || lines[0] != "x-amz-date: "+q.Header.Get("X-Amz-Date") {
			t.Errorf("%s: signed as\n%s\ninstead of\n%s", c.name, lines[len(lines)-2], want)
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	signer := Signer{Access: "AKID", Secret: "secret", Region: "us-east-1"}
	now, path, out := time.Now(), []byte("/bucket/data/payload-4kB-256x1/0000001"), []byte(nil)
	b.ReportAllocs()
	for b.Loop() {
		out = signer.Append(out[:0], now, "GET", "127.0.0.1:9000", path, "", Empty)
	}
}

// The time of the SDK's signer, for comparison.
func BenchmarkSDK(b *testing.B) {
	sdk := v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true })
	keys := aws.Credentials{AccessKeyID: "AKID", SecretAccessKey: "secret"}
	b.ReportAllocs()
	for b.Loop() {
		q, _ := http.NewRequest("GET", "http://127.0.0.1:9000/bucket/data/payload-4kB-256x1/0000001", nil)
		_ = sdk.SignHTTP(context.Background(), keys, q, Empty, "s3", "us-east-1", time.Now())
	}
}
