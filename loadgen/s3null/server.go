// Package s3null answers S3 requests with almost no work.
//
// Clients can read objects that were never written: the last two components of a key are `<body>/<n>`, and the object's
// content is the file <body> in the folder of bodies. Uploads are read and discarded. Lists are empty, unless the name of
// the folder describes its keys (listings.go). Deletions succeed, and signatures are not checked. An answer has the
// headers and the XML that s5cmd, s3fs, boto3 and obstore need.
package s3null

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/valyala/fasthttp"
)

// Health is the path for checking that the server runs.
const Health = "health"

const (
	modified  = "Mon, 13 Apr 2015 00:00:00 GMT"
	etag      = `"d41d8cd98f00b204e9800998ecf8427e"` // ETag of every upload, because uploads are not read back
	uploadID  = "null"
	namespace = ` xmlns="http://s3.amazonaws.com/doc/2006-03-01/"`
	header    = `<?xml version="1.0" encoding="UTF-8"?>` + "\n"
)

var sinks = sync.Pool{New: func() any { b := make([]byte, 256<<10); return &b }}

// A Server answers with these bodies.
type Server struct{ Bodies *Bodies }

// HTTP returns an HTTP server without timeouts and without a limit of uploads. It keeps connections open.
func (s *Server) HTTP() *fasthttp.Server {
	return &fasthttp.Server{
		Handler:                      s.Handle,
		Name:                         "nullserver",
		NoDefaultContentType:         true,
		StreamRequestBody:            true,
		DisablePreParseMultipartForm: true,
		ReadBufferSize:               16 << 10,
		WriteBufferSize:              16 << 10,
		MaxRequestBodySize:           1 << 50,
		CloseOnShutdown:              true,
	}
}

// Handle answers one request.
func (s *Server) Handle(ctx *fasthttp.RequestCtx) {
	path := string(ctx.Path())
	bucket, key, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	ctx.Response.Header.Set("X-Amz-Request-Id", "0000000000000000")
	switch string(ctx.Method()) {
	case fasthttp.MethodGet, fasthttp.MethodHead:
		if key == "" {
			ask(ctx, bucket)
		} else {
			s.get(ctx, key)
		}
	case fasthttp.MethodPut:
		drain(ctx)
		put(ctx)
	case fasthttp.MethodPost:
		post(ctx, bucket, key)
	case fasthttp.MethodDelete:
		ctx.SetStatusCode(fasthttp.StatusNoContent)
	default:
		fail(ctx, fasthttp.StatusMethodNotAllowed, "MethodNotAllowed")
	}
}

// ask answers requests about buckets. Every bucket exists, and is empty except for folders of keys.
func ask(ctx *fasthttp.RequestCtx, bucket string) {
	args := ctx.QueryArgs()
	switch {
	case ctx.IsHead(), bucket == Health:
	case bucket == "":
		xml(ctx, "<ListAllMyBucketsResult"+namespace+"><Owner><ID>null</ID></Owner><Buckets></Buckets></ListAllMyBucketsResult>")
	case args.Has("location"):
		xml(ctx, "<LocationConstraint"+namespace+"></LocationConstraint>")
	case args.Has("versioning"):
		xml(ctx, "<VersioningConfiguration"+namespace+"></VersioningConfiguration>")
	case args.Has("uploads"):
		xml(ctx, "<ListMultipartUploadsResult"+namespace+"><IsTruncated>false</IsTruncated></ListMultipartUploadsResult>")
	default:
		list(ctx, bucket)
	}
}

// get answers GET and HEAD requests for a whole object or one range of it.
func (s *Server) get(ctx *fasthttp.RequestCtx, key string) {
	body := s.Bodies.Of(key)
	if body == nil {
		fail(ctx, fasthttp.StatusNotFound, "NoSuchKey")
		return
	}
	size := int64(len(body.Data))
	first, length := int64(0), size
	head := &ctx.Response.Header
	if asked := ctx.Request.Header.Peek("Range"); len(asked) > 0 {
		from, n, err := span(string(asked), size)
		if err != nil {
			head.Set("Content-Range", fmt.Sprintf("bytes */%d", size))
			fail(ctx, fasthttp.StatusRequestedRangeNotSatisfiable, "InvalidRange")
			return
		}
		first, length = from, n
		ctx.SetStatusCode(fasthttp.StatusPartialContent)
		buffer := append(make([]byte, 0, 64), "bytes "...)
		buffer = append(strconv.AppendInt(buffer, first, 10), '-')
		buffer = append(strconv.AppendInt(buffer, first+length-1, 10), '/')
		head.SetBytesV("Content-Range", strconv.AppendInt(buffer, size, 10))
	}
	head.Set("Etag", body.ETag)
	head.Set("Last-Modified", modified)
	head.Set("Accept-Ranges", "bytes")
	head.Set("Content-Type", "application/octet-stream")
	ctx.Response.SetBodyRaw(body.Data[first : first+length]) // for HEAD, fasthttp sends only the length
}

var errRange = errors.New("not one range within the object")

// span reads a Range header with one range, and returns its first byte and its length.
func span(text string, size int64) (int64, int64, error) {
	from, to, ok := strings.Cut(strings.TrimPrefix(text, "bytes="), "-")
	if !ok || !strings.HasPrefix(text, "bytes=") {
		return 0, 0, errRange
	}
	last, failed := size-1, error(nil)
	if to != "" {
		if last, failed = strconv.ParseInt(to, 10, 64); failed != nil || last < 0 {
			return 0, 0, errRange
		}
	}
	if from == "" { // the last bytes
		if to == "" || last == 0 || size == 0 {
			return 0, 0, errRange
		}
		n := min(last, size)
		return size - n, n, nil
	}
	first, failed := strconv.ParseInt(from, 10, 64)
	if failed != nil || first < 0 || first >= size || last < first {
		return 0, 0, errRange
	}
	return first, min(last, size-1) - first + 1, nil
}

// drain reads an upload to its end.
func drain(ctx *fasthttp.RequestCtx) {
	stream := ctx.RequestBodyStream()
	if stream == nil {
		return
	}
	sink := sinks.Get().(*[]byte)
	for {
		if _, err := stream.Read(*sink); err != nil {
			break // the end, or the client has closed the connection, which does not matter
		}
	}
	sinks.Put(sink)
}

// put answers requests to upload an object or a part, to copy an object, and to create a bucket.
func put(ctx *fasthttp.RequestCtx) {
	if len(ctx.Request.Header.Peek("X-Amz-Copy-Source")) > 0 {
		xml(ctx, "<CopyObjectResult"+namespace+"><LastModified>2015-04-13T00:00:00.000Z</LastModified><ETag>"+quoted(etag)+"</ETag></CopyObjectResult>")
		return
	}
	ctx.Response.Header.Set("Etag", etag)
}

// post answers requests to begin or end a multipart upload, and to delete several objects.
func post(ctx *fasthttp.RequestCtx, bucket, key string) {
	args := ctx.QueryArgs()
	switch {
	case args.Has("delete"):
		xml(ctx, deleted(ctx.PostBody()))
	case args.Has("uploads"):
		drain(ctx)
		xml(ctx, "<InitiateMultipartUploadResult"+namespace+"><Bucket>"+quoted(bucket)+"</Bucket><Key>"+quoted(key)+"</Key><UploadId>"+uploadID+
			"</UploadId></InitiateMultipartUploadResult>")
	case args.Has("uploadId"):
		drain(ctx)
		xml(ctx, "<CompleteMultipartUploadResult"+namespace+"><Location>/"+quoted(bucket)+"/"+quoted(key)+"</Location><Bucket>"+quoted(bucket)+"</Bucket><Key>"+
			quoted(key)+"</Key><ETag>"+quoted(etag)+"</ETag></CompleteMultipartUploadResult>")
	default:
		drain(ctx)
		fail(ctx, fasthttp.StatusNotImplemented, "NotImplemented")
	}
}

// deleted answers a DeleteObjects request with all its keys, unless the request asks only for errors.
func deleted(request []byte) string {
	var out strings.Builder
	out.WriteString("<DeleteResult" + namespace + ">")
	for rest := request; !bytes.Contains(request, []byte("<Quiet>true")); {
		_, after, found := bytes.Cut(rest, []byte("<Key>"))
		key, after, whole := bytes.Cut(after, []byte("</Key>"))
		if !found || !whole {
			break
		}
		out.WriteString("<Deleted><Key>")
		out.Write(key)
		out.WriteString("</Key></Deleted>")
		rest = after
	}
	out.WriteString("</DeleteResult>")
	return out.String()
}

func quoted(text string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;").Replace(text)
}

func xml(ctx *fasthttp.RequestCtx, text string) {
	ctx.Response.Header.Set("Content-Type", "application/xml")
	ctx.SetBodyString(header + text)
}

func fail(ctx *fasthttp.RequestCtx, status int, code string) {
	ctx.SetStatusCode(status)
	xml(ctx, "<Error><Code>"+code+"</Code><Message>"+code+"</Message><RequestId>0000000000000000</RequestId></Error>")
}
