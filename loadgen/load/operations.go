package load

import (
	"bytes"
	"crypto/md5"
	"encoding/base64"
	"encoding/xml"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"storelab/loadgen/job"
)

// lane is the connection of a worker to one endpoint, with further connections for the parts of an object.
type lane struct {
	main  *conn
	parts []*conn // main is the first; empty unless objects are transferred in parts
}

// outcome is the result of an operation, without its error.
type outcome struct {
	first  int64 // absolute; 0: unknown
	status int
	number int // number of keys of a page; for whole listings, of pages
}

// do performs one operation. With `verify`, it compares the bytes of the answer with the bytes of the body.
func (r *Run) do(l *lane, t *task, verify bool) (outcome, error) {
	bucket := r.job.Buckets[t.bucket]
	switch t.op {
	case job.Put:
		if r.inParts {
			return r.putParts(l, t, bucket)
		}
		return r.plain(l.main, &request{method: "PUT", bucket: bucket, key: t.key, body: r.bodies[t.body][:t.size], stamp: t.stamp})
	case job.Get:
		if r.inParts {
			return r.getParts(l, t, bucket, verify)
		}
		return r.download(l.main, t, bucket, 0, t.size, false, verify)
	case job.GetRange:
		return r.download(l.main, t, bucket, t.from, t.to, true, verify)
	case job.Head:
		a, err := r.asked(l.main, &request{method: "HEAD", bucket: bucket, key: t.key}, nil, false)
		switch {
		case err != nil:
		case a.status != 200:
			err = wrongf("WrongAnswer", "status %d instead of 200", a.status)
		case a.size < 0: // fasthttp's value for an answer without a length
			err = wrongf("WrongAnswer", "no Content-Length")
		case a.size != t.size:
			err = wrongf("WrongAnswer", "Content-Length %d instead of %d", a.size, t.size)
		}
		return outcome{status: a.status}, err
	case job.Delete:
		return r.plain(l.main, &request{method: "DELETE", bucket: bucket, key: t.key})
	case job.Multi:
		return r.deleteMany(l.main, t, bucket)
	case job.List:
		if r.pool != nil {
			return r.listPart(l.main, t, bucket)
		}
		if len(r.job.Lists) > 0 {
			return r.listFolder(l.main, t, bucket)
		}
		return r.list(l.main, t, bucket)
	}
	return outcome{}, fmt.Errorf("there is no operation %q", t.op)
}

// asked makes one exchange. If the answer reports an error, it returns this error.
func (r *Run) asked(c *conn, q *request, visit func([]byte), keep bool) (answer, error) {
	a, err := c.exchange(q, visit, keep)
	if err == nil && a.status/100 != 2 {
		err = refused(a)
	}
	return a, err
}

func (r *Run) plain(c *conn, q *request) (outcome, error) {
	a, err := r.asked(c, q, nil, false)
	return outcome{status: a.status}, err
}

// download reads [from, to) of an object. With `ranged`, it requests this range, and accepts only this range.
func (r *Run) download(c *conn, t *task, bucket string, from, to int64, ranged, verify bool) (outcome, error) {
	q := request{method: "GET", bucket: bucket, key: t.key}
	if ranged {
		q.from, q.to = from, to
	}
	same, at := true, from
	var visit func([]byte)
	if verify {
		body := r.bodies[t.body][:t.size]
		visit = func(b []byte) {
			end := at + int64(len(b))
			same = same && end <= int64(len(body)) && bytes.Equal(b, body[at:end])
			at = end
		}
	}
	a, err := r.asked(c, &q, visit, false)
	out := outcome{status: a.status, first: a.first}
	switch {
	case err != nil:
		return out, err
	case ranged && a.status != 206:
		return out, wrongf("NotPartial", "the answer to a range has status %d", a.status)
	case ranged && !rangeIs(c.head.Peek("Content-Range"), from, to):
		return out, wrongf("WrongAnswer", "Content-Range %q instead of %d-%d", c.head.Peek("Content-Range"), from, to-1)
	case a.size != to-from:
		return out, wrongf("WrongAnswer", "%d B instead of %d B", a.size, to-from)
	}
	if verify {
		r.compared.Add(1)
		if !same {
			r.differ.Add(1)
			return out, wrongf("WrongAnswer", "the bytes are not those of the object")
		}
	}
	return out, nil
}

// rangeIs returns whether a Content-Range (`bytes 0-9/100`) is [from, to).
func rangeIs(header []byte, from, to int64) bool {
	span, _, ok := strings.Cut(strings.TrimPrefix(string(header), "bytes "), "/")
	first, last, both := strings.Cut(span, "-")
	a, err := strconv.ParseInt(first, 10, 64)
	b, also := strconv.ParseInt(last, 10, 64)
	return ok && both && err == nil && also == nil && a == from && b == to-1
}

// each transfers the parts of an object of the given size on the lane's connections. It stops at the first error.
func (r *Run) each(l *lane, size int64, part func(c *conn, number int, from, to int64) error) error {
	n := int((size + r.job.PartSize - 1) / r.job.PartSize)
	var next, failed int
	var first error
	var mu sync.Mutex
	var all sync.WaitGroup
	work := func(c *conn) {
		for {
			mu.Lock()
			i := next
			next++
			stop := i >= n || failed > 0
			mu.Unlock()
			if stop {
				return
			}
			from := int64(i) * r.job.PartSize
			if err := part(c, i+1, from, min(from+r.job.PartSize, size)); err != nil {
				mu.Lock()
				if failed++; first == nil {
					first = err
				}
				mu.Unlock()
			}
		}
	}
	for _, c := range l.parts[1:] {
		all.Go(func() { work(c) })
	}
	work(l.parts[0])
	all.Wait()
	return first
}

func (r *Run) getParts(l *lane, t *task, bucket string, verify bool) (outcome, error) {
	var mu sync.Mutex
	out := outcome{}
	err := r.each(l, r.job.ObjectSize, func(c *conn, _ int, from, to int64) error {
		got, err := r.download(c, t, bucket, from, to, true, verify)
		mu.Lock()
		defer mu.Unlock()
		if out.first == 0 || (got.first != 0 && got.first < out.first) {
			out.first = got.first
		}
		if out.status == 0 || err != nil {
			out.status = got.status
		}
		return err
	})
	return out, err
}

// putParts makes a multipart upload: create, parts, complete. It aborts a failed upload.
func (r *Run) putParts(l *lane, t *task, bucket string) (outcome, error) {
	q := request{method: "POST", bucket: bucket, key: t.key, query: "uploads="}
	a, err := r.asked(l.main, &q, nil, true)
	if err != nil {
		return outcome{status: a.status}, err
	}
	var begun struct{ UploadId string }
	if xml.Unmarshal(a.body, &begun) != nil || begun.UploadId == "" {
		return outcome{status: a.status}, wrongf("WrongAnswer", "no UploadId in the answer to a multipart upload")
	}
	id := "uploadId=" + escaped(begun.UploadId)
	body := r.bodies[t.body]
	tags := make([]string, (int64(len(body))+r.job.PartSize-1)/r.job.PartSize)
	err = r.each(l, int64(len(body)), func(c *conn, number int, from, to int64) error {
		q := request{method: "PUT", bucket: bucket, key: t.key, query: fmt.Sprintf("partNumber=%d&%s", number, id), body: body[from:to]}
		if _, err := r.asked(c, &q, nil, false); err != nil {
			return err
		}
		tags[number-1] = string(c.head.Peek("ETag"))
		return nil
	})
	if err == nil {
		var list strings.Builder
		list.WriteString("<CompleteMultipartUpload>")
		for i, tag := range tags {
			fmt.Fprintf(&list, "<Part><PartNumber>%d</PartNumber><ETag>%s</ETag></Part>", i+1, tag)
		}
		list.WriteString("</CompleteMultipartUpload>")
		q := request{method: "POST", bucket: bucket, key: t.key, query: id, body: []byte(list.String())}
		a, err = r.asked(l.main, &q, nil, true)
		if err == nil {
			err = completed(a)
		}
		if err == nil {
			return outcome{status: a.status}, nil
		}
	}
	if !r.cut.Load() {
		_, _ = l.main.exchange(&request{method: "DELETE", bucket: bucket, key: t.key, query: id}, nil, false)
	}
	return outcome{status: a.status}, err
}

// completed returns nil if the answer reports that an upload is complete. A server that needs long answers 200 before it
// completes the upload. Then the body can be an error, in any XML namespace, or incomplete.
func completed(a answer) error {
	var root struct{ XMLName xml.Name }
	err := xml.Unmarshal(a.body, &root)
	switch {
	case root.XMLName.Local == "Error":
		return refused(a)
	case err != nil || root.XMLName.Local != "CompleteMultipartUploadResult":
		return wrongf("WrongAnswer", "no CompleteMultipartUploadResult in the answer that ends a multipart upload")
	}
	return nil
}

func (r *Run) deleteMany(c *conn, t *task, bucket string) (outcome, error) {
	var list bytes.Buffer
	list.WriteString("<Delete><Quiet>true</Quiet>")
	for _, i := range t.many {
		list.WriteString("<Object><Key>")
		_ = xml.EscapeText(&list, []byte(r.job.Objects.Key[i]))
		list.WriteString("</Key></Object>")
	}
	list.WriteString("</Delete>")
	sum := md5.Sum(list.Bytes())
	q := request{method: "POST", bucket: bucket, query: "delete=", body: list.Bytes(), md5: base64.StdEncoding.EncodeToString(sum[:])}
	a, err := r.asked(c, &q, nil, true)
	if err == nil && bytes.Contains(a.body, []byte("<Error>")) {
		err = refused(a)
	}
	return outcome{status: a.status}, err
}

// list requests one page.
func (r *Run) list(c *conn, t *task, bucket string) (outcome, error) {
	query := ""
	if t.continuation != "" {
		query = "continuation-token=" + escaped(t.continuation) + "&"
	}
	query += "list-type=2&prefix=" + escaped(r.job.ListPrefix)
	a, err := r.asked(c, &request{method: "GET", bucket: bucket, query: query}, nil, true)
	out := outcome{status: a.status, first: a.first}
	t.continuation = ""
	if err != nil {
		return out, err
	}
	var page struct {
		IsTruncated           bool
		NextContinuationToken string
		Contents              []struct{ Key string }
	}
	if xml.Unmarshal(a.body, &page) != nil {
		return out, wrongf("WrongAnswer", "the list is not XML")
	}
	if page.IsTruncated {
		t.continuation = page.NextContinuationToken
	}
	out.number = len(page.Contents)
	return out, nil
}

// escaped returns a query value in the form that the signature needs.
func escaped(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }
