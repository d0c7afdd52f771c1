package load

import (
	"encoding/xml"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// shelf lists the keys of one folder in order, like a store. forge may change a page.
type shelf struct {
	names []string
	sizes map[string]int
	forge func(page []string, after int) (keys []string, truncated, token string)
	asked int
}

func (s *shelf) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	values := q.URL.Query()
	s.asked++
	after, _ := strconv.Atoi(values.Get("continuation-token"))
	most, _ := strconv.Atoi(values.Get("max-keys"))
	if !strings.HasPrefix(s.names[0], values.Get("prefix")) || most == 0 {
		w.WriteHeader(400)
		return
	}
	end := min(len(s.names), after+most)
	page, truncated, token := s.names[min(after, end):end], fmt.Sprint(end < len(s.names)), strconv.Itoa(end)
	if s.forge != nil {
		if p, t, k := s.forge(slices.Clone(page), after); t != "" {
			page, truncated, token = p, t, k
		} else {
			page = p
		}
	}
	fmt.Fprint(w, `<?xml version="1.0"?><ListBucketResult xmlns="http://s3"><Name>b</Name>`)
	for _, key := range page {
		size, other := s.sizes[key]
		if !other {
			size = 100
		}
		fmt.Fprintf(w, `<Contents><Key>%s</Key><ETag>&quot;x&quot;</ETag><Size>%d</Size><Owner><ID>a</ID></Owner></Contents>`, key, size)
	}
	fmt.Fprintf(w, "<IsTruncated>%s</IsTruncated>", truncated)
	if truncated == "true" && token != "" {
		fmt.Fprintf(w, "<NextContinuationToken>%s</NextContinuationToken>", token)
	}
	fmt.Fprint(w, "</ListBucketResult>")
}

// folder is an independent implementation of the names: number n of `keys`, with the first `depth` digits as folders.
func folder(keys, depth int) []string {
	var out []string
	width := len(strconv.Itoa(keys - 1))
	for n := range keys {
		digits := fmt.Sprintf("%0*d", width, n)
		out = append(out, "f/"+strings.Join(append(strings.Split(digits[:depth], ""), digits), "/"))
	}
	return slices.DeleteFunc(out, func(s string) bool { return s == "" })
}

func listLab(t *testing.T, s *shelf, keys, depth, page int) *lab {
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return newLab(t, server.URL).with("LIST", map[string]any{
		"lists": []any{map[string]any{"bucket": 0, "prefix": "f/"}}, "list_keys": keys, "list_depth": depth, "page_size": page, "workers": 1,
	})
}

func TestWholeFoldersAreListed(t *testing.T) {
	for _, c := range [][4]int{{1, 0, 1000, 1}, {10, 0, 3, 4}, {100, 1, 100, 1}, {250, 2, 100, 3}, {1001, 3, 1000, 2}, {7, 0, 1, 7}} {
		keys, depth, page, pages := c[0], c[1], c[2], c[3]
		s := &shelf{names: folder(keys, depth)}
		if !slices.IsSorted(s.names) {
			t.Fatalf("%v: not in the order of the names", c)
		}
		rows, out := listLab(t, s, keys, depth, page).run(0.1)
		if len(rows) == 0 || out.Errors != 0 || out.Operations != int64(len(rows)*keys) || out.Requests["LIST"] != int32(pages) {
			t.Fatalf("%v: %+v", c, out)
		}
		for _, r := range rows {
			if r.Count != int64(keys) || r.Requests != int32(pages) || r.Status != 200 || r.FirstNs <= r.StartNs || r.Object != "" {
				t.Fatalf("%v: %+v", c, r)
			}
		}
		if l := out.Listed; int(l.Pages) != s.asked || l.Keys != out.Operations || l.Bytes < 100*l.Keys {
			t.Errorf("%v: %+v of %d requests", c, l, s.asked)
		}
	}
}

func TestForgedListingsAreErrorsByName(t *testing.T) {
	type forge = func(page []string, after int) ([]string, string, string)
	only := func(change func([]string) []string) forge {
		return func(page []string, after int) ([]string, string, string) {
			if after == 4 {
				page = change(page)
			}
			return page, "", ""
		}
	}
	for _, c := range []struct {
		class, says string
		forge       forge
	}{
		{"KeyMissing", `1 of 10 keys are missing, the first is "f/5"`, only(func(p []string) []string { return slices.Delete(p, 1, 2) })},
		{"KeyMissing", `2 of 10 keys are missing, the first is "f/8"`, func(p []string, after int) ([]string, string, string) {
			return p, fmt.Sprint(after < 4), fmt.Sprint(after + 4) // the last page is not announced
		}},
		{"KeyDoubled", `"f/4" is listed twice`, only(func(p []string) []string { return append(p[:1:1], p[:3]...) })},
		{"KeyDoubled", `"f/3" is listed twice`, only(func(p []string) []string { return append([]string{"f/3"}, p[:3]...) })},
		{"KeyForeign", `"f/x" is not a key`, only(func(p []string) []string { return append(p[:1:1], "f/x") })},
		{"KeyForeign", `"f/10" is not a key`, only(func(p []string) []string { return append(p[:1:1], "f/10") })},
		{"KeyForeign", `"f/05" is not a key`, only(func(p []string) []string { return append(p[:1:1], "f/05") })},
		{"KeyForeign", `"f/&5" is not a key`, only(func(p []string) []string { return append(p[:1:1], "f/&amp;5") })},
		{"KeyForeign", `"g/5" is not a key`, only(func(p []string) []string { return append(p[:1:1], "g/5") })},
		{"KeyOrder", `"f/4" is listed after a later key`, only(func(p []string) []string { p[0], p[1] = p[1], p[0]; return p })},
		{"KeySize", `"f/5" has 99 B instead of 100 B`, nil},
		{"ListEndless", "promises more", func(p []string, after int) ([]string, string, string) {
			return nil, "true", strconv.Itoa(after + 1) // a new token each time, and no key
		}},
		{"ListEndless", "promises more", func(p []string, after int) ([]string, string, string) {
			if after == 4 {
				return nil, "true", "4"
			}
			return p, "", ""
		}},
		{"WrongAnswer", "has no token", func(p []string, after int) ([]string, string, string) { return p, "true", "" }},
		{"WrongAnswer", "not XML", only(func(p []string) []string { return []string{"f/4</Key></Contents>"} })},
		{"PageTooLong", "5 keys in a page, at most 4", func(p []string, after int) ([]string, string, string) {
			if after == 0 {
				return append(p, "f/4"), "true", "5"
			}
			return p, "", ""
		}},
	} {
		s := &shelf{names: folder(10, 0), forge: c.forge}
		if c.class == "KeySize" {
			s.sizes = map[string]int{"f/5": 99}
		}
		rows, out := listLab(t, s, 10, 0, 4).run(0.05)
		if len(rows) == 0 || out.Operations != 0 || out.Errors != int64(10*len(rows)) {
			t.Errorf("%s: %+v", c.class, out)
			continue
		}
		if rows[0].Error != c.class || !strings.Contains(out.Messages[c.class], c.says) || rows[0].Count != 10 {
			t.Errorf("%s, %q: %+v, %v", c.class, c.says, rows[0], out.Messages)
		}
	}
}

// The remaining pages of a listing at the deadline are requested during the drain.
func TestAListingEndsAfterTheDeadline(t *testing.T) {
	s := &shelf{names: folder(10, 0), forge: func(p []string, _ int) ([]string, string, string) {
		time.Sleep(20 * time.Millisecond)
		return p, "", ""
	}}
	rows, out := listLab(t, s, 10, 0, 1).with("LIST", map[string]any{"drain_s": 5}).run(0.1)
	if len(rows) != 1 || out.Errors != 0 || rows[0].Requests != 10 {
		t.Errorf("%+v", rows)
	}
}

// Reading by tags gives the same result as encoding/xml.
func TestPagesAreReadAsXMLIs(t *testing.T) {
	for _, text := range []string{
		`<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>`,
		`<?xml version="1.0"?><ListBucketResult xmlns="x"><IsTruncated>true</IsTruncated><NextContinuationToken>a&amp;b/+=</NextContinuationToken>` +
			`<Contents><Key>a &lt;b&gt; &quot;&#39;&#x41;</Key><Size>7</Size></Contents><KeyCount>1</KeyCount></ListBucketResult>`,
		"<ListBucketResult>\n <Contents>\n  <Size>0</Size>\n  <Key>z</Key>\n </Contents>\n <Contents><Key>IsTruncated</Key><Size>12345678901</Size></Contents>\n" +
			" <IsTruncated>false</IsTruncated>\n <NextContinuationToken>stale</NextContinuationToken></ListBucketResult>\n",
	} {
		var want struct {
			IsTruncated           bool
			NextContinuationToken string
			Contents              []struct {
				Key  string
				Size int64
			}
		}
		if err := xml.Unmarshal([]byte(text), &want); err != nil {
			t.Fatal(err)
		}
		got := want.Contents[:0:0]
		token, keys, err := readPage([]byte(text), func(key []byte, size int64) error {
			got = append(got, struct {
				Key  string
				Size int64
			}{string(key), size})
			return nil
		})
		if !want.IsTruncated {
			want.NextContinuationToken = ""
		}
		if err != nil || token != want.NextContinuationToken || keys != len(want.Contents) || !slices.Equal(got, want.Contents) {
			t.Errorf("%s: %q %d %v %v", text, token, keys, got, err)
		}
	}
	for _, text := range []string{"", "<html/>", "<ListBucketResult><Contents><Key>a</Key></Contents><IsTruncated>false</IsTruncated></ListBucketResult>",
		"<ListBucketResult></ListBucketResult>", "<ListBucketResult><Contents><Key>a</Key><Size>x</Size></Contents></ListBucketResult>",
		"<ListBucketResult><IsTruncated>false</IsTruncated>"} {
		if _, _, err := readPage([]byte(text), func([]byte, int64) error { return nil }); err == nil {
			t.Errorf("%q is a page", text)
		}
	}
}

func BenchmarkPage(b *testing.B) {
	var page strings.Builder
	page.WriteString("<ListBucketResult>")
	for _, key := range folder(1000, 2) {
		fmt.Fprintf(&page, `<Contents><Key>%s</Key><LastModified>2026-01-01T00:00:00Z</LastModified><ETag>&quot;0123456789abcdef&quot;</ETag><Size>100</Size><StorageClass>STANDARD</StorageClass></Contents>`, key)
	}
	page.WriteString("<IsTruncated>false</IsTruncated></ListBucketResult>")
	text := []byte(page.String())
	b.Run("tags", func(b *testing.B) {
		for range b.N {
			l := listing{prefix: "f/", keys: 1000, digits: 3, depth: 2, size: 100}
			if _, _, err := readPage(text, l.take); err != nil || l.end() != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("xml", func(b *testing.B) {
		for range b.N {
			var out struct {
				Contents []struct {
					Key  string
					Size int64
				}
			}
			if xml.Unmarshal(text, &out) != nil {
				b.Fatal()
			}
		}
	})
}
