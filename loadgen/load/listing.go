package load

import (
	"bytes"
	"errors"
	"fmt"
	"html"
	"strconv"
)

const (
	mostOfPage = 1000 // maximum keys of a page in S3
	mostEmpty  = 10   // maximum number of pages of one listing that have no key but announce more keys
)

// listing checks the keys of one folder as they arrive. The name of key n is its number, with the digits of the largest
// number, below folders of its first `depth` digits: `4/2/427`. Therefore names and numbers have the same order.
type listing struct {
	prefix       string
	keys, digits int
	depth        int
	size         int64
	next, seen   int // expected number; number of keys so far
	name         []byte
	absent       map[int]bool // numbers that were skipped
	late         int          // the first number after a higher one, + 1
}

func (l *listing) named(n int) []byte {
	digits := strconv.AppendInt(nil, int64(n), 10)
	l.name = append(l.name[:0], l.prefix...)
	start := len(l.name) + 2*l.depth
	for len(l.name) < start {
		l.name = append(l.name, '0', '/')
	}
	for range l.digits - len(digits) {
		l.name = append(l.name, '0')
	}
	l.name = append(l.name, digits...)
	for i := range l.depth {
		l.name[start-2*l.depth+2*i] = l.name[start+i]
	}
	return l.name
}

// number returns the number of a key of the folder; -1 for other keys.
func (l *listing) number(key []byte) int {
	n, err := strconv.Atoi(string(key[max(0, len(key)-l.digits):]))
	if err != nil || n < 0 || n >= l.keys || !bytes.Equal(key, l.named(n)) {
		return -1
	}
	return n
}

// take checks one key of a page.
func (l *listing) take(key []byte, size int64) error {
	n := l.next
	if n >= l.keys || !bytes.Equal(key, l.named(n)) {
		n = l.number(key)
	}
	switch {
	case n < 0:
		return wrongf("KeyForeign", "%.200q is not a key of the folder", key)
	case n < l.next && !l.absent[n]:
		return wrongf("KeyDoubled", "%.200q is listed twice", key)
	case size != l.size:
		return wrongf("KeySize", "%.200q has %d B instead of %d B", key, size, l.size)
	}
	if n < l.next {
		delete(l.absent, n)
		if l.late == 0 {
			l.late = n + 1
		}
	}
	for ; l.next < n; l.next++ {
		if l.absent == nil {
			l.absent = map[int]bool{}
		}
		l.absent[l.next] = true
	}
	l.next = max(l.next, n+1)
	l.seen++
	return nil
}

// end checks the listing after its last page.
func (l *listing) end() error {
	if l.seen < l.keys {
		first := l.next
		for n := range l.absent {
			first = min(first, n)
		}
		return wrongf("KeyMissing", "%d of %d keys are missing, the first is %q", l.keys-l.seen, l.keys, l.named(first))
	}
	if l.late > 0 {
		return wrongf("KeyOrder", "%q is listed after a later key", l.named(l.late-1))
	}
	return nil
}

var errNoList = errors.New("the list is not XML")

// inside returns the text of the first element with this name, and the text after it.
func inside(b []byte, open, close string) (text, rest []byte, ok bool) {
	_, after, found := bytes.Cut(b, []byte(open))
	if !found {
		return nil, b, false
	}
	return bytes.Cut(after, []byte(close))
}

// readPage passes on the keys of one page of ListObjectsV2, and returns the token of the next page; "" for the last page.
// It does not use encoding/xml, which takes ten times as long as the server. Text contains no bare `<`, so elements can
// be found by their tags.
func readPage(page []byte, take func(key []byte, size int64) error) (token string, keys int, err error) {
	body, _, ok := inside(page, "<ListBucketResult", "</ListBucketResult>")
	if !ok {
		return "", 0, errNoList
	}
	first := bytes.Index(body, []byte("<Contents>"))
	around := body
	if first >= 0 {
		last := bytes.LastIndex(body, []byte("</Contents>"))
		if last < first {
			return "", 0, errNoList
		}
		around = append(append([]byte{}, body[:first]...), body[last:]...)
		body = body[first : last+len("</Contents>")]
	} else {
		body = nil
	}
	for {
		one, rest, ok := inside(body, "<Contents>", "</Contents>")
		if !ok {
			break
		}
		key, _, named := inside(one, "<Key>", "</Key>")
		text, _, sized := inside(one, "<Size>", "</Size>")
		size, err := strconv.ParseInt(string(text), 10, 64)
		if !named || !sized || err != nil {
			return "", keys, errNoList
		}
		if bytes.IndexByte(key, '&') >= 0 {
			key = []byte(html.UnescapeString(string(key)))
		}
		keys++
		if err := take(key, size); err != nil {
			return "", keys, err
		}
		body = rest
	}
	cut, _, told := inside(around, "<IsTruncated>", "</IsTruncated>")
	if !told {
		return "", keys, errNoList
	}
	if string(cut) != "true" {
		return "", keys, nil
	}
	next, _, _ := inside(around, "<NextContinuationToken>", "</NextContinuationToken>")
	if len(next) == 0 {
		return "", keys, errors.New("the page announces more keys, but has no token")
	}
	return html.UnescapeString(string(next)), keys, nil
}

// listFolder lists a whole folder, page by page, and checks every key.
func (r *Run) listFolder(c *conn, t *task, bucket string) (outcome, error) {
	j := r.job
	l := listing{prefix: t.key, keys: j.ListKeys, digits: j.ListDigits(), depth: j.ListDepth, size: j.ObjectSize}
	tail := "list-type=2"
	if j.PageSize > 0 {
		tail += fmt.Sprint("&max-keys=", j.PageSize)
	}
	tail += "&prefix=" + escaped(t.key)
	out, token, empty := outcome{}, "", 0
	for {
		query := tail
		if token != "" {
			query = "continuation-token=" + escaped(token) + "&" + tail
		}
		out.number++
		a, err := r.asked(c, &request{method: "GET", bucket: bucket, query: query}, nil, true)
		if out.status = a.status; out.first == 0 {
			out.first = a.first
		}
		if err != nil {
			return out, err
		}
		next, keys, err := readPage(a.body, l.take)
		r.pages.Add(1)
		r.keys.Add(int64(keys))
		r.listBytes.Add(a.size)
		var wrong *wrong
		switch {
		case errors.As(err, &wrong):
			return out, err
		case err != nil:
			return out, wrongf("WrongAnswer", "%v", err)
		case j.PageSize > 0 && keys > j.PageSize:
			return out, wrongf("PageTooLong", "%d keys in a page, at most %d were asked for", keys, j.PageSize)
		case next == "":
			return out, l.end()
		}
		if keys == 0 {
			empty++
		}
		if next == token || empty > mostEmpty {
			return out, wrongf("ListEndless", "page %d promises more, and %d of %d keys came", out.number, l.seen, l.keys)
		}
		token = next
	}
}
