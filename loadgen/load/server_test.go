package load

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// server has the part of S3 that the tests need. The first component of a key determines the fault of an answer.
type server struct {
	*httptest.Server
	mu      sync.Mutex
	objects map[string][]byte
	uploads map[string]map[int][]byte
	opened  map[string]bool // remote addresses
	hashes  map[string]bool // x-amz-content-sha256 of uploads
	aborts  int
	pace    time.Duration // of every read
	stalled chan struct{}
}

func serve(t *testing.T, tls bool) *server {
	s := &server{
		objects: map[string][]byte{}, uploads: map[string]map[int][]byte{}, opened: map[string]bool{}, hashes: map[string]bool{},
		stalled: make(chan struct{}),
	}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(s.answer))
	s.Config.ConnState = func(c net.Conn, state http.ConnState) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if state == http.StateNew {
			s.opened[c.RemoteAddr().String()] = true
		}
	}
	s.Config.ErrorLog = nil
	if tls {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(func() { close(s.stalled); s.CloseClientConnections(); s.Close() })
	return s
}

func (s *server) put(key string, body []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects[key] = body
}

func (s *server) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.objects)
}

func (s *server) fault(w http.ResponseWriter, key string) bool {
	raw := func(text string, hard bool) {
		c, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		io.WriteString(c, text)
		if tcp, ok := c.(*net.TCPConn); ok && hard {
			tcp.SetLinger(0)
		}
		c.Close()
	}
	switch strings.Split(key, "/")[0] {
	case "half":
		raw("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf of it", false)
	case "nothing":
		raw("", false)
	case "reset":
		raw("", true)
	case "garbage":
		raw("SSH-2.0-nothing\r\n\r\n", false)
	case "hang":
		<-s.stalled
	case "hanghalf":
		w.Header().Set("Content-Length", "100")
		w.Write([]byte("half of it"))
		w.(http.Flusher).Flush()
		<-s.stalled
	case "slowdown":
		w.WriteHeader(503)
		io.WriteString(w, "<?xml version=\"1.0\"?><Error><Code>SlowDown</Code><Message>less, please</Message></Error>")
	case "bare":
		w.WriteHeader(502)
	default:
		return false
	}
	return true
}

func (s *server) answer(w http.ResponseWriter, q *http.Request) {
	body, _ := io.ReadAll(q.Body)
	_, key, _ := strings.Cut(strings.TrimPrefix(q.URL.Path, "/"), "/")
	if key == "" { // a listing
		key = q.URL.Query().Get("prefix")
	}
	if s.fault(w, key) {
		return
	}
	if q.Method == "GET" {
		time.Sleep(s.pace)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	values := q.URL.Query()
	switch {
	case q.Method == "POST" && values.Has("delete"):
		var request struct{ Object []struct{ Key string } }
		if xml.Unmarshal(body, &request) != nil || q.Header.Get("Content-MD5") == "" {
			w.WriteHeader(400)
			return
		}
		io.WriteString(w, "<DeleteResult>")
		for _, o := range request.Object {
			if strings.HasPrefix(o.Key, "kept") {
				fmt.Fprintf(w, "<Error><Key>%s</Key><Code>AccessDenied</Code></Error>", o.Key)
			}
			delete(s.objects, o.Key)
		}
		io.WriteString(w, "</DeleteResult>")
	case q.Method == "POST" && values.Has("uploads"):
		id := fmt.Sprint("id/", len(s.uploads))
		s.uploads[id] = map[int][]byte{}
		fmt.Fprintf(w, "<InitiateMultipartUploadResult><UploadId>%s</UploadId></InitiateMultipartUploadResult>", id)
	case q.Method == "POST":
		var whole []byte
		for i := 1; i <= len(s.uploads[values.Get("uploadId")]); i++ {
			whole = append(whole, s.uploads[values.Get("uploadId")][i]...)
		}
		if bytes.Count(body, []byte(`"tag-`)) != len(s.uploads[values.Get("uploadId")]) {
			w.WriteHeader(400)
			return
		}
		s.objects[key] = whole
		io.WriteString(w, "<CompleteMultipartUploadResult/>")
	case q.Method == "PUT" && values.Has("partNumber"):
		n, _ := strconv.Atoi(values.Get("partNumber"))
		if strings.HasPrefix(key, "badpart") && n == 2 {
			w.WriteHeader(500)
			return
		}
		s.uploads[values.Get("uploadId")][n] = body
		w.Header().Set("ETag", fmt.Sprintf(`"tag-%d"`, n))
	case q.Method == "PUT":
		s.hashes[q.Header.Get("x-amz-content-sha256")] = true
		s.objects[key] = body
	case q.Method == "DELETE" && values.Has("uploadId"):
		s.aborts++
		w.WriteHeader(204)
	case q.Method == "DELETE":
		delete(s.objects, key)
		w.WriteHeader(204)
	case values.Has("list-type"):
		s.list(w, values.Get("prefix"), values.Get("continuation-token"))
	default:
		s.read(w, q, key)
	}
}

func (s *server) list(w io.Writer, prefix, after string) {
	var keys []string
	for key := range s.objects {
		if strings.HasPrefix(key, prefix) && key > after {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	page := keys[:min(3, len(keys))]
	fmt.Fprintf(w, "<ListBucketResult><IsTruncated>%t</IsTruncated>", len(page) < len(keys))
	if len(page) < len(keys) {
		fmt.Fprintf(w, "<NextContinuationToken>%s</NextContinuationToken>", page[2])
	}
	for _, key := range page {
		fmt.Fprintf(w, "<Contents><Key>%s</Key></Contents>", key)
	}
	io.WriteString(w, "</ListBucketResult>")
}

func (s *server) read(w http.ResponseWriter, q *http.Request, key string) {
	body, ok := s.objects[key]
	if !ok {
		w.WriteHeader(404)
		io.WriteString(w, "<Error><Code>NoSuchKey</Code></Error>")
		return
	}
	kind := strings.Split(key, "/")[0]
	switch kind {
	case "chunked":
		w.Write(body[:10])
		w.(http.Flusher).Flush()
		w.Write(body[10:])
		return
	case "partial":
		w.Header().Set("Content-Length", "100")
		w.WriteHeader(206)
		return
	case "close":
		w.Header().Set("Connection", "close")
	case "short":
		body = body[:len(body)-1]
	case "other":
		body = slices.Clone(body)
		body[len(body)/2]++
	case "slow":
		time.Sleep(50 * time.Millisecond)
	}
	if kind == "whole" {
		q.Header.Del("Range")
	}
	if kind == "shifted" {
		w.Header().Set("Content-Range", "bytes 0-9/100")
		w.WriteHeader(206)
		w.Write(body[:10])
		return
	}
	http.ServeContent(w, q, "", time.Time{}, bytes.NewReader(body))
}

func sourcesRng(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, seed)) }
