package s3null

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"
)

const size = 1_000_003

func content() []byte {
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(i * 7 % 251)
	}
	return data
}

// start returns the URL of a server that has the body `1-1000003-0`, an empty one, and a secret next to its folder.
func start(t testing.TB) string {
	t.Helper()
	root := t.TempDir()
	folder := filepath.Join(root, "bodies")
	for path, data := range map[string][]byte{"1-1000003-0": content(), "empty": nil, ".hidden": {1}, "../secret": {2}} {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, path), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	socket, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := (&Server{Bodies: Open(folder)}).HTTP()
	go server.Serve(socket)
	t.Cleanup(func() { socket.Close() })
	return "http://" + socket.Addr().String()
}

func request(t *testing.T, method, url string, body io.Reader, headers ...string) (*http.Response, []byte) {
	t.Helper()
	asked, err := http.NewRequest(method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		asked.Header.Set(headers[i], headers[i+1])
	}
	answer, err := http.DefaultTransport.RoundTrip(asked)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer, data
}

func TestObjectsHaveTheirBodies(t *testing.T) {
	url := start(t)
	for _, key := range []string{"data/1-1000003-0/000", "1-1000003-0/x", "a/b/c/1-1000003-0/7"} {
		for range 2 { // first loaded, then cached
			answer, data := request(t, "GET", url+"/bucket/"+key, nil)
			if answer.StatusCode != 200 || !bytes.Equal(data, content()) || answer.Header.Get("ETag") == "" {
				t.Errorf("%s: %d, %d bytes", key, answer.StatusCode, len(data))
			}
		}
	}
	if answer, data := request(t, "GET", url+"/bucket/empty/1", nil); answer.StatusCode != 200 || len(data) != 0 {
		t.Errorf("empty: %d, %d bytes", answer.StatusCode, len(data))
	}
}

func TestHead(t *testing.T) {
	url := start(t)
	answer, data := request(t, "HEAD", url+"/bucket/1-1000003-0/1", nil)
	if answer.StatusCode != 200 || answer.ContentLength != size || len(data) != 0 || answer.Header.Get("Last-Modified") == "" {
		t.Errorf("%d, length %d", answer.StatusCode, answer.ContentLength)
	}
	if answer, _ := request(t, "HEAD", url+"/bucket/nothing/1", nil); answer.StatusCode != 404 {
		t.Errorf("an object that is not there: %d", answer.StatusCode)
	}
	if answer, _ := request(t, "HEAD", url+"/bucket", nil); answer.StatusCode != 200 {
		t.Errorf("a bucket: %d", answer.StatusCode)
	}
}

func TestNothingBesideTheBodies(t *testing.T) {
	url := start(t)
	for _, key := range []string{"nothing/1", "1-1000003-0", ".hidden/1", "%2e%2e%2fsecret/1", "a/..%2Fsecret/1", "../secret/1", "/1", "./1"} {
		if answer, data := request(t, "GET", url+"/bucket/"+key, nil); answer.StatusCode == 200 && !bytes.Contains(data, []byte("<")) {
			t.Errorf("%s: %d %q", key, answer.StatusCode, data)
		}
	}
}

func TestRanges(t *testing.T) {
	url, all := start(t)+"/bucket/1-1000003-0/1", content()
	for text, want := range map[string][2]int{
		"bytes=0-0": {0, 1}, "bytes=5-9": {5, 10}, "bytes=999999-": {999_999, size}, "bytes=-3": {size - 3, size},
		"bytes=1000-2000000": {1000, size}, "bytes=-2000000": {0, size}, "bytes=0-": {0, size},
	} {
		answer, data := request(t, "GET", url, nil, "Range", text)
		said := fmt.Sprintf("bytes %d-%d/%d", want[0], want[1]-1, size)
		if answer.StatusCode != 206 || !bytes.Equal(data, all[want[0]:want[1]]) || answer.Header.Get("Content-Range") != said {
			t.Errorf("%s: %d, %d bytes, %s", text, answer.StatusCode, len(data), answer.Header.Get("Content-Range"))
		}
	}
	for _, text := range []string{"bytes=1000003-", "bytes=9-5", "bytes=-0", "bytes=0-1,5-6", "bytes=a-b", "lines=1-2", "bytes=5", "bytes=-"} {
		answer, data := request(t, "GET", url, nil, "Range", text)
		if answer.StatusCode != 416 || !bytes.Contains(data, []byte("InvalidRange")) {
			t.Errorf("%s: %d, %d bytes", text, answer.StatusCode, len(data))
		}
	}
}

func TestUploadsAreReadToTheirEnd(t *testing.T) {
	url := start(t)
	for _, n := range []int{0, 1, 4000, 10_000, 5_000_000} {
		for _, chunked := range []bool{false, true} {
			var body io.Reader = bytes.NewReader(make([]byte, n))
			if chunked {
				body = io.LimitReader(body, int64(n))
			}
			// The connection must be usable afterwards, without a rest of the body in it.
			answer, _ := request(t, "PUT", url+"/bucket/put/x/1", body, "Expect", "100-continue")
			if answer.StatusCode != 200 || answer.Header.Get("ETag") == "" {
				t.Errorf("%d bytes, chunked %v: %d", n, chunked, answer.StatusCode)
			}
		}
	}
	if answer, _ := request(t, "GET", url+"/bucket/put/x/1", nil); answer.StatusCode != 404 {
		t.Errorf("what was uploaded is there: %d", answer.StatusCode)
	}
	if answer, data := request(t, "PUT", url+"/bucket/copy", nil, "x-amz-copy-source", "/bucket/1-1000003-0/1"); answer.StatusCode != 200 ||
		!bytes.Contains(data, []byte("<CopyObjectResult")) {
		t.Errorf("copy: %d %s", answer.StatusCode, data)
	}
}

func TestUploadsInParts(t *testing.T) {
	url := start(t) + "/bucket/put/a&b"
	_, data := request(t, "POST", url+"?uploads", nil)
	if !bytes.Contains(data, []byte("<UploadId>null</UploadId>")) || !bytes.Contains(data, []byte("<Key>put/a&amp;b</Key>")) {
		t.Errorf("begin: %s", data)
	}
	for part := 1; part < 4; part++ {
		answer, _ := request(t, "PUT", fmt.Sprintf("%s?partNumber=%d&uploadId=null", url, part), bytes.NewReader(make([]byte, 6_000_000)))
		if answer.StatusCode != 200 || answer.Header.Get("ETag") == "" {
			t.Errorf("part: %d", answer.StatusCode)
		}
	}
	_, data = request(t, "POST", url+"?uploadId=null", strings.NewReader("<CompleteMultipartUpload></CompleteMultipartUpload>"))
	if !bytes.Contains(data, []byte("<ETag>&quot;")) {
		t.Errorf("end: %s", data)
	}
	if answer, _ := request(t, "DELETE", url+"?uploadId=null", nil); answer.StatusCode != 204 {
		t.Errorf("abort: %d", answer.StatusCode)
	}
}

func TestDeletions(t *testing.T) {
	url := start(t) + "/bucket"
	if answer, _ := request(t, "DELETE", url+"/put/x", nil); answer.StatusCode != 204 {
		t.Errorf("one: %d", answer.StatusCode)
	}
	several := "<Delete><Object><Key>a&amp;b</Key></Object><Object><Key>c</Key></Object></Delete>"
	_, data := request(t, "POST", url+"?delete", strings.NewReader(several))
	if !bytes.Contains(data, []byte("<Deleted><Key>a&amp;b</Key></Deleted><Deleted><Key>c</Key></Deleted>")) {
		t.Errorf("several: %s", data)
	}
	_, data = request(t, "POST", url+"?delete=", strings.NewReader(strings.Replace(several, "<Object>", "<Quiet>true</Quiet><Object>", 1)))
	if bytes.Contains(data, []byte("<Deleted>")) || !bytes.Contains(data, []byte("<DeleteResult")) {
		t.Errorf("several, quietly: %s", data)
	}
}

func TestBuckets(t *testing.T) {
	url := start(t)
	for path, want := range map[string]string{
		"/": "<ListAllMyBucketsResult", "/bucket": "<KeyCount>0</KeyCount>", "/bucket/?list-type=2&prefix=a%2F": "<KeyCount>0</KeyCount>",
		"/bucket?location": "<LocationConstraint", "/bucket?versioning": "<VersioningConfiguration", "/bucket?uploads": "<ListMultipartUploadsResult",
	} {
		if answer, data := request(t, "GET", url+path, nil); answer.StatusCode != 200 || !bytes.Contains(data, []byte(want)) {
			t.Errorf("%s: %d %s", path, answer.StatusCode, data)
		}
	}
	if answer, data := request(t, "GET", url+"/"+Health, nil); answer.StatusCode != 200 || len(data) != 0 {
		t.Errorf("health: %d %s", answer.StatusCode, data)
	}
	for method, want := range map[string]int{"PUT": 200, "DELETE": 204, "POST": 501, "PATCH": 405} {
		if answer, _ := request(t, method, url+"/bucket", nil); answer.StatusCode != want {
			t.Errorf("%s of a bucket: %d", method, answer.StatusCode)
		}
	}
}

// Client and server share the CPU. More than half of it must remain for a client.
func BenchmarkGetRange4kB(b *testing.B) {
	url := start(b)
	client := &fasthttp.HostClient{Addr: strings.TrimPrefix(url, "http://"), MaxConns: 1000}
	b.SetParallelism(8)
	b.RunParallel(func(loop *testing.PB) {
		asked, answer := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
		asked.SetRequestURI(url + "/bucket/data/1-1000003-0/0000000")
		asked.Header.Set("Range", "bytes=1000-4999")
		for loop.Next() {
			if err := client.Do(asked, answer); err != nil || len(answer.Body()) != 4000 {
				b.Error(err, len(answer.Body()))
			}
		}
	})
}
