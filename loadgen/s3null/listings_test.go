package s3null

import (
	decode "encoding/xml"
	"fmt"
	"testing"
)

type page struct {
	KeyCount, MaxKeys     int
	IsTruncated           bool
	NextContinuationToken string
	Contents              []struct {
		Key  string
		Size int64
	}
}

func TestFoldersOfKeysAreListed(t *testing.T) {
	url := start(t)
	ask := func(query string) (p page) {
		t.Helper()
		answer, data := request(t, "GET", url+"/bucket?list-type=2&"+query, nil)
		if answer.StatusCode != 200 || decode.Unmarshal(data, &p) != nil || p.KeyCount != len(p.Contents) {
			t.Fatalf("%s: %d %.200s", query, answer.StatusCode, data)
		}
		return p
	}
	for prefix, name := range map[string]func(n int) string{
		"data/keys-4kB-2345x3/keys/":           func(n int) string { return fmt.Sprintf("%04d", n) },
		"p/data/keys-4kB-2345x1-depth2/keys/":  func(n int) string { s := fmt.Sprintf("%04d", n); return s[:1] + "/" + s[1:2] + "/" + s },
		"data/keys-4kB-2345x2-depth1-a2/keys/": func(n int) string { s := fmt.Sprintf("%04d", n); return s[:1] + "/" + s },
	} {
		for _, most := range []int{1000, 7, 5000} {
			n, token, pages := 0, "", 0
			for {
				query := fmt.Sprintf("prefix=%s&max-keys=%d", prefix, most)
				if token != "" {
					query = "continuation-token=" + token + "&" + query
				}
				p := ask(query)
				for _, c := range p.Contents {
					if c.Key != prefix+name(n) || c.Size != 4000 {
						t.Fatalf("key %d is %s of %d B", n, c.Key, c.Size)
					}
					n++
				}
				if pages++; !p.IsTruncated {
					break
				}
				if len(p.Contents) != min(most, 1000) {
					t.Fatalf("a page of %d keys", len(p.Contents))
				}
				token = p.NextContinuationToken
			}
			if n != 2345 || pages != (2345+min(most, 1000)-1)/min(most, 1000) {
				t.Errorf("%s: %d keys in %d pages", prefix, n, pages)
			}
		}
	}
	for _, prefix := range []string{"", "data/", "keys-4XB-10x1/keys/", "keys-4kB-10x1-depth2/keys/", "keys-4kB-10x1/", "akeys-4kB-10x1/keys/"} {
		if p := ask("prefix=" + prefix); len(p.Contents) != 0 || p.IsTruncated {
			t.Errorf("%q: %d keys", prefix, len(p.Contents))
		}
	}
}
